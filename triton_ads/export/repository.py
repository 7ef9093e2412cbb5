"""A Triton model repository for releases, one of each recipe.

    REPOSITORY/
        router/        config.pbtxt  1/model.py  1/release -> the release's folder
        user_encoder/  the same
        item_scorer/   the same
        rank/          config.pbtxt  1/.gitkeep      the ensemble; Triton wants a version folder
        generator/  trie_verifier/  target/  ads/    of a recipe that generates ads: two models, two ensembles
        mine_router/ ...                             those of a recipe whose `serving.prefix` is mine

A version folder names its release by a relative symbolic link, so a config holds no path, a repository and its
releases can be moved or mounted together, and publishing another release is one more version folder.

`python -m triton_ads.export.repository` renders the folders that stand in git, model_repository/ and ensembles/, from
build/recipes/movielens.yaml.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from triton_ads.export.configs import chains, render_configs
from triton_ads.manifest import MANIFEST_FILE, Manifest
from triton_ads.recipe import Recipe, load_recipe
from triton_ads.recipe.names import (
    ADS,
    ENCODER,
    ENSEMBLE,
    GENERATOR,
    ROUTER,
    SCORER,
    TARGET,
    TARGET_MODELS,
    VERIFIER,
    beside,
    chain_of,
    ensembles,
    prefixed,
)

RELEASE_LINK = "release"
DEFAULT_RECIPE = Path("build/recipes/movielens.yaml")

_CLASSES = {
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
    for ensemble, models in chains(recipe).items():
        files |= {f"{prefixed(name, prefix)}/{version}/model.py": render_model(name) for name in models}
        files[f"{prefixed(ensemble, prefix)}/1/.gitkeep"] = ""
    return files


def folders(recipe: Recipe, repository: Path) -> list[Path]:
    """The folders of the recipe's models: the ensembles', and those of the models that they chain."""
    return [repository / name for name in render_configs(recipe)]


@dataclass(frozen=True)
class Replaced:
    """Models that a recipe's took the place of."""

    recipe: str
    ensemble: str


def write_repository(release: Path, repository: Path) -> list[Replaced]:
    """Render the models that serve `release`, as version 1, into `repository` (made if missing).

    Models of other recipes are left as they are; those that this recipe had under another prefix are removed, for a
    recipe is served once.

    Returns:
        The models that are served no longer: of another recipe with the same prefix, or of an earlier prefix.

    Raises:
        ManifestError: `release` is no valid release.
    """
    recipe = Manifest.load(release).recipe
    ensemble = prefixed(ENSEMBLE, recipe.serving.prefix)
    replaced = []
    for other, name in served_recipes(repository).items():
        if other == ensemble and name != recipe.name:
            replaced.append(Replaced(name, other))
        elif other != ensemble and name == recipe.name:
            replaced.append(Replaced(name, other))
            for model in (other, *chain_of(other), *_of_target(other)):
                shutil.rmtree(repository / model, ignore_errors=True)
    if recipe.target is None:  # the recipe with this prefix that was served before may have had one
        for model in _of_target(ensemble):
            shutil.rmtree(repository / model, ignore_errors=True)
    for model in folders(recipe, repository):  # versions that were published since it was written
        for version in model.glob("[0-9]*"):
            if version.name != "1":
                shutil.rmtree(version)
    files = render_repository(recipe)
    _write(files, repository)
    for name in (path.split("/", 1)[0] for path in files if path.endswith("/model.py")):
        link = repository / name / "1" / RELEASE_LINK
        link.unlink(missing_ok=True)
        # Both ends resolved: a relative link is read from the folder in which it really lies.
        link.symlink_to(os.path.relpath(release.resolve(), link.parent.resolve()), target_is_directory=True)
    return replaced


def _of_target(ensemble: str) -> list[str]:
    """What a recipe that generates ads has beside the chain that ranks."""
    return [beside(ensemble, name) for name in (*TARGET_MODELS, TARGET, ADS)]


def served_recipes(repository: Path) -> dict[str, str]:
    """The name of the recipe behind every ensemble of a repository."""
    found = {}
    for ensemble in ensembles([path.name for path in repository.glob("*") if path.is_dir()]):
        versions = sorted((repository / chain_of(ensemble)[0]).iterdir())
        links = [version / RELEASE_LINK for version in versions if (version / RELEASE_LINK).is_symlink()]
        if links:
            found[ensemble] = _recipe_name(links[-1])
    return found


def _recipe_name(release: Path) -> str:
    """Of a release that may be of another version of this library, or be gone: then the name of its folder tells."""
    try:
        return str(json.loads((release / MANIFEST_FILE).read_text())["recipe"]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return release.resolve().name.rpartition("-")[0]


def _write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def render_tree(recipe: Recipe, root: Path) -> None:
    """Write model_repository/ and ensembles/ under `root`, as they stand in git."""
    files = render_repository(recipe)
    chained = tuple(f"{name}/" for name in chains(recipe))
    _write({n: text for n, text in files.items() if not n.startswith(chained)}, root / "model_repository")
    _write({n: text for n, text in files.items() if n.startswith(chained)}, root / "ensembles")


if __name__ == "__main__":
    render_tree(load_recipe(DEFAULT_RECIPE), Path())
