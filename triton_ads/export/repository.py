"""A Triton model repository for releases, one of each recipe.

    REPOSITORY/
        rank/          config.pbtxt  1/model.py  1/release -> the release's folder
        generator/  trie_verifier/  target/  ads/    of a recipe that generates ads: two models, two ensembles
        mine_rank/ ...                               those of a recipe whose `serving.prefix` is mine

of a recipe whose layout is `ensemble`

        rank/          config.pbtxt  1/.gitkeep      the ensemble; Triton wants a version folder
        router/  user_encoder/  item_scorer/         as rank above

A version folder names its release by a relative symbolic link, so a config holds no path, a repository and its
releases can be moved or mounted together, and publishing another release is one more version folder.

`python -m triton_ads.export.repository` renders the folders that stand in git, model_repository/ and ensembles/, from
build/recipes/movielens.yaml.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from triton_ads.export.configs import chains, models_of, render_configs
from triton_ads.manifest import MANIFEST_FILE, Manifest
from triton_ads.recipe import Recipe, load_recipe
from triton_ads.recipe.names import (
    ADS,
    ENCODER,
    GENERATOR,
    LAYOUTS,
    RANK,
    RELEASE_LINK,
    ROUTER,
    SCORER,
    TARGET,
    TARGET_MODELS,
    VERIFIER,
    beside,
    chain_of,
    prefixed,
    rankers,
)

DEFAULT_RECIPE = Path("build/recipes/movielens.yaml")

_CLASSES = {
    RANK: ("rank_model", "RankModel", "looks the user up, chooses the tier, scores and ranks the candidates"),
    ROUTER: ("router_model", "RouterModel", "looks the user up, chooses the tier, stamps the deadline"),
    ENCODER: ("encoder_model", "EncoderModel", "runs the user part of a tier once per request"),
    SCORER: ("scorer_model", "ScorerModel", "scores all candidates of all requests of a batch"),
    GENERATOR: ("generator_model", "GeneratorModel", "scores the ads that could follow a journey, or answer a query"),
    VERIFIER: ("verifier_model", "VerifierModel", "selects ads from what was scored; answers none that must not be"),
}


def render_model(name: str) -> str:
    """The text of a model's model.py: Triton looks for a class of this name, the library holds it."""
    module, cls, what = _CLASSES[name]
    return (
        f'"""{name}: {what}. See triton_ads/serving/{module}.py."""\n\n'
        f"from triton_ads.serving.{module} import {cls} as TritonPythonModel\n\n"
        '__all__ = ["TritonPythonModel"]\n'
    )


def render_repository(recipe: Recipe, version: int = 1) -> dict[str, str]:
    """Every text file of a repository whose models have this version, by its path inside."""
    prefix = recipe.serving.prefix
    files = {f"{name}/config.pbtxt": text for name, text in render_configs(recipe, version).items()}
    files |= {f"{prefixed(name, prefix)}/{version}/model.py": render_model(name) for name in models_of(recipe)}
    return files | {f"{prefixed(name, prefix)}/1/.gitkeep": "" for name in chains(recipe)}


def folders(recipe: Recipe, repository: Path) -> list[Path]:
    """The folders of the recipe's models: the ensembles', and those of the models that they chain."""
    return [repository / name for name in render_configs(recipe)]


@dataclass(frozen=True)
class Replaced:
    """Models that a recipe's took the place of."""

    recipe: str
    ensemble: str


def write_repository(
    release: Path, repository: Path, layout: Literal["single", "ensemble"] | None = None
) -> list[Replaced]:
    """Render the models that serve `release`, as version 1, into `repository` (made if missing).

    Models of other recipes are left as they are; those that this recipe had under another prefix are removed, for a
    recipe is served once.

    Args:
        layout: in place of the recipe's.

    Returns:
        The models that are served no longer: of another recipe with the same prefix, or of an earlier prefix.

    Raises:
        ManifestError: `release` is no valid release.
    """
    recipe = Manifest.load(release).recipe
    if layout is not None:
        recipe = _in_layout(recipe, layout)
    rank = prefixed(RANK, recipe.serving.prefix)
    replaced = []
    for other, name in served_recipes(repository).items():
        if (other == rank) != (name == recipe.name):
            replaced.append(Replaced(name, other))
        if other != rank and name == recipe.name:
            _remove(repository / model for model in _all_of(other))
    for model in folders(recipe, repository):  # versions that were published since it was written
        for version in model.glob("[0-9]*"):
            if version.name != "1":
                shutil.rmtree(version)
    files = render_repository(recipe)
    links = {f"{path.removesuffix('model.py')}{RELEASE_LINK}": release for path in files if path.endswith("/model.py")}
    _write(files, repository, links)
    # Of the other layout, or of ads that are generated no longer.
    kept = {folder.name for folder in folders(recipe, repository)}
    _remove(repository / model for model in _all_of(rank) if model not in kept)
    version = repository / rank / "1"
    own = {repository / path for path in (*files, *links)}
    _remove(version / part for part in (".gitkeep", "model.py", RELEASE_LINK) if version / part not in own)
    return replaced


def _all_of(rank: str) -> list[str]:
    """The models and ensembles that a recipe may have, in any layout, by the name of its `rank`."""
    names = (*(name for layout in LAYOUTS.values() for name in layout), *TARGET_MODELS, TARGET, ADS)
    return [beside(rank, name) for name in names]


def _remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def served_recipes(repository: Path) -> dict[str, str]:
    """The name of the recipe behind every `rank` of a repository."""
    found = {}
    models = [path.name for path in repository.glob("*") if path.is_dir()]
    for rank in rankers(repository):
        versions = sorted((repository / chain_of(rank, models)[0]).iterdir())
        links = [version / RELEASE_LINK for version in versions if (version / RELEASE_LINK).is_symlink()]
        if links:
            found[rank] = _recipe_name(links[-1])
    return found


def _recipe_name(release: Path) -> str:
    """Of a release that may be of another version of this library, or be gone: then the name of its folder tells."""
    try:
        return str(json.loads((release / MANIFEST_FILE).read_text())["recipe"]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return release.resolve().name.rpartition("-")[0]


def _write(files: dict[str, str], folder: Path, links: Mapping[str, Path]) -> None:
    """Write all files and links to folders, or none where they do not fit on the disk."""
    staged: dict[Path, Path] = {}
    try:
        for name in (*files, *links):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            new = staged[path] = path.with_name(f".{path.name}.new")
            new.unlink(missing_ok=True)
            if name in files:
                new.write_text(files[name], encoding="utf-8")
            else:
                # Both ends resolved: a relative link is read from the folder in which it really lies.
                target = os.path.relpath(links[name].resolve(), new.parent.resolve())
                new.symlink_to(target, target_is_directory=True)
    except BaseException:
        for new in staged.values():
            new.unlink(missing_ok=True)
        raise
    for path, new in staged.items():
        new.replace(path)


def _in_layout(recipe: Recipe, layout: str) -> Recipe:
    return recipe.model_copy(update={"serving": recipe.serving.model_copy(update={"layout": layout})})


def render_tree(recipe: Recipe, root: Path) -> None:
    """Write model_repository/ and ensembles/ under `root`, as they stand in git: the models of both layouts, and what
    chains them in the second one."""
    for layout in LAYOUTS:
        laid_out = _in_layout(recipe, layout)
        files = render_repository(laid_out)
        chained = tuple(f"{name}/" for name in chains(laid_out))
        _write({n: text for n, text in files.items() if not n.startswith(chained)}, root / "model_repository", {})
        _write({n: text for n, text in files.items() if n.startswith(chained)}, root / "ensembles", {})


if __name__ == "__main__":
    render_tree(load_recipe(DEFAULT_RECIPE), Path())
