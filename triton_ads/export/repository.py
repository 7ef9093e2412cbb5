"""A Triton model repository for a release.

    REPOSITORY/
        router/        config.pbtxt  1/model.py  1/release -> the release's folder
        user_encoder/  the same
        item_scorer/   the same
        rank/          config.pbtxt  1/.gitkeep      the ensemble; Triton wants a version folder

A version folder names its release by a relative symbolic link, so a config holds no path, a repository and its
releases can be moved or mounted together, and publishing another release is one more version folder.

`python -m triton_ads.export.repository` renders the folders that stand in git, model_repository/ and ensembles/, from
build/recipes/movielens.yaml.
"""

import os
from pathlib import Path

from triton_ads.export.configs import ENCODER, ENSEMBLE, MODELS, ROUTER, SCORER, render_configs
from triton_ads.manifest import Manifest
from triton_ads.recipe import Recipe, load_recipe

RELEASE_LINK = "release"
DEFAULT_RECIPE = Path("build/recipes/movielens.yaml")

_CLASSES = {
    ROUTER: ("router_model", "RouterModel", "looks the user up, chooses the tier, stamps the deadline"),
    ENCODER: ("encoder_model", "EncoderModel", "runs the user part of a tier once per request"),
    SCORER: ("scorer_model", "ScorerModel", "scores all candidates of all requests of a batch"),
}


def render_model(name: str) -> str:
    """The text of a model's model.py: Triton looks for a class of this name, the library holds it."""
    module, cls, what = _CLASSES[name]
    return (
        f'"""{name}: {what}. See triton_ads/serving/{module}.py."""\n\n'
        f"from triton_ads.serving.{module} import {cls} as TritonPythonModel\n\n"
        '__all__ = ["TritonPythonModel"]\n'
    )


def render_repository(recipe: Recipe) -> dict[str, str]:
    """Every text file of a repository of version 1, by its path inside."""
    files = {f"{name}/config.pbtxt": text for name, text in render_configs(recipe).items()}
    files |= {f"{name}/1/model.py": render_model(name) for name in MODELS}
    files[f"{ENSEMBLE}/1/.gitkeep"] = ""
    return files


def write_repository(release: Path, repository: Path) -> None:
    """Render the repository that serves `release` as version 1 into `repository` (made if missing).

    Raises:
        ManifestError: `release` is no valid release.
    """
    manifest = Manifest.load(release)
    _write(render_repository(manifest.recipe), repository)
    for name in MODELS:
        link = repository / name / "1" / RELEASE_LINK
        link.unlink(missing_ok=True)
        # Both ends resolved: a relative link is read from the folder in which it really lies.
        link.symlink_to(os.path.relpath(release.resolve(), link.parent.resolve()), target_is_directory=True)


def _write(files: dict[str, str], folder: Path) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def render_tree(recipe: Recipe, root: Path) -> None:
    """Write model_repository/ and ensembles/ under `root`, as they stand in git."""
    files = render_repository(recipe)
    _write({n: text for n, text in files.items() if not n.startswith(f"{ENSEMBLE}/")}, root / "model_repository")
    _write({n: text for n, text in files.items() if n.startswith(f"{ENSEMBLE}/")}, root / "ensembles")


if __name__ == "__main__":
    render_tree(load_recipe(DEFAULT_RECIPE), Path())
