"""From checked tiers to a release: one folder, written once, named by what it holds."""

import shutil
from pathlib import Path

from triton_ads.features.vocabulary import Tables
from triton_ads.manifest import Manifest, RouterManifest, TargetManifest, TierManifest, file_digest, release_id
from triton_ads.recipe import Recipe
from triton_ads.routing.gain import GAIN_FILE


def write_release(
    recipe: Recipe,
    data: Path,
    tiers: dict[str, tuple[Path, TierManifest]],
    releases: Path,
    router: tuple[Path, RouterManifest] | None = None,
    target: tuple[Path, Path, TargetManifest] | None = None,
) -> Path:
    """Gather vocabularies, store and tiers in `releases/NAME-ID` and write the manifest.

    The folder appears whole or not at all: it is made under another name and renamed.

    Args:
        data: what `triton_ads.data.prepare` wrote.
        tiers: tier -> its folder and manifest, as `export_tier` gives them.
        router: of a recipe whose router is learned, the file and its manifest, as `train_router` gives them.
        target: of a recipe that generates ads, what `write_catalogue` wrote, the packed model and their manifest.

    Returns:
        The folder of the release; one that is there already is left as it is.
    """
    staging = releases / f".staging-{recipe.name}"  # recipes may be built at once
    shutil.rmtree(staging, ignore_errors=True)
    try:
        manifest = _gather(staging, recipe, data, tiers, router, target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)  # a full disk, above all: what is left would keep it full
        raise
    release = releases / f"{recipe.name}-{manifest.release}"
    if release.exists():
        shutil.rmtree(staging)
    else:
        staging.rename(release)
    return release


def _gather(
    staging: Path,
    recipe: Recipe,
    data: Path,
    tiers: dict[str, tuple[Path, TierManifest]],
    router: tuple[Path, RouterManifest] | None,
    target: tuple[Path, Path, TargetManifest] | None,
) -> Manifest:
    """Copy everything into `staging`, the manifest last."""
    staging.mkdir(parents=True)
    for part in ("vocabularies", "store"):
        shutil.copytree(data / part, staging / part)
    for tier, (folder, _) in tiers.items():
        shutil.copytree(folder, staging / "tiers" / tier)
    if router is not None:
        (staging / GAIN_FILE).parent.mkdir()
        shutil.copyfile(router[0], staging / GAIN_FILE)
    if target is not None:
        for part in ("tree", "users"):
            shutil.copytree(target[0] / part, staging / "target" / part)
        shutil.copyfile(target[0] / "words.json", staging / "target" / "words.json")
        shutil.copytree(target[1], staging / "target" / "model")
    files = {str(path.relative_to(staging)): file_digest(path) for path in sorted(staging.rglob("*")) if path.is_file()}
    tables = Tables.load(recipe, data / "vocabularies")
    manifest = Manifest(
        release=release_id(recipe.digest, files),
        recipe=recipe,
        recipe_digest=recipe.digest,
        vocabulary_digest=tables.digest,
        table_rows=tables.table_rows,
        tiers={tier: found for tier, (_, found) in tiers.items()},
        router=router[1] if router is not None else None,
        target=target[2] if target is not None else None,
        files=files,
    )
    manifest.save(staging)
    return manifest
