"""From checked tiers to a release: one folder, written once, named by what it holds."""

import shutil
from pathlib import Path

from triton_ads.features.vocabulary import Tables
from triton_ads.manifest import Manifest, TierManifest, file_digest, release_id
from triton_ads.recipe import Recipe


def write_release(recipe: Recipe, data: Path, tiers: dict[str, tuple[Path, TierManifest]], releases: Path) -> Path:
    """Gather vocabularies, store and tiers in `releases/NAME-ID` and write the manifest.

    The folder appears whole or not at all: it is made under another name and renamed.

    Args:
        data: what `triton_ads.data.prepare` wrote.
        tiers: tier -> its folder and manifest, as `export_tier` gives them.

    Returns:
        The folder of the release; one that is there already is left as it is.
    """
    staging = releases / ".staging"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    for part in ("vocabularies", "store"):
        shutil.copytree(data / part, staging / part)
    for tier, (folder, _) in tiers.items():
        shutil.copytree(folder, staging / "tiers" / tier)
    files = {str(path.relative_to(staging)): file_digest(path) for path in sorted(staging.rglob("*")) if path.is_file()}
    tables = Tables.load(recipe, data / "vocabularies")
    manifest = Manifest(
        release=release_id(recipe.digest, files),
        recipe=recipe,
        recipe_digest=recipe.digest,
        vocabulary_digest=tables.digest,
        table_rows=tables.table_rows,
        tiers={tier: found for tier, (_, found) in tiers.items()},
        files=files,
    )
    manifest.save(staging)
    release = releases / f"{recipe.name}-{manifest.release}"
    if release.exists():
        shutil.rmtree(staging)
    else:
        staging.rename(release)
    return release
