"""May a release take the place of the one that is served? What can be known without loading it."""

from pathlib import Path

from triton_ads.export.calibration_bound import check_calibration
from triton_ads.export.configs import render_configs
from triton_ads.export.parity_bound import check_parity_figures
from triton_ads.manifest import Manifest
from triton_ads.recipe import Recipe
from triton_ads.server.versions import CONFIG, is_ensemble, read_config


class PublishError(RuntimeError):
    """A release that is not served; the message says why. What was served before still is."""


def check_release(release: Path) -> Manifest:
    """The manifest of a release whose files are whole, belong together, and keep the bounds of its recipe.

    Raises:
        ManifestError: a file is missing, damaged or of another release.
        ParityError, CalibrationError: what the build measured is out of bound.
    """
    manifest = Manifest.load(release)
    check_parity_figures(manifest.tiers)
    check_calibration(manifest.recipe, manifest.tiers)
    return manifest


def check_same_models(recipe: Recipe, repository: Path) -> None:
    """The models of the repository must take what the release's models take: a config is one for all versions.

    Raises:
        PublishError: naming the models that differ.
    """
    differ = []
    for name, text in render_configs(recipe).items():
        path = repository / name / CONFIG
        if not path.is_file():
            raise PublishError(
                f"{repository}: has no model {name}, which the recipe {recipe.name} needs; "
                "stop the server, `triton-ads build`, and start it again"
            )
        wanted, found = read_config(text), read_config(path.read_text(encoding="utf-8"))
        if is_ensemble(found):
            for step in (*wanted.ensemble_scheduling.step, *found.ensemble_scheduling.step):
                step.model_version = 1
        if wanted != found:
            differ.append(name)
    if differ:
        raise PublishError(
            f"{', '.join(differ)}: the release needs other tensors or limits than the server was started with "
            "(features, labels, `serving`); stop the server, `triton-ads build`, and start it again, "
            "or serve the release beside it under a `serving.prefix` of its own"
        )
