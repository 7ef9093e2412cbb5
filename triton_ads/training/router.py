"""The router stage of the build: the learned router of two trained tiers, and what it is worth."""

# Legend: n examples, R requests, X features, K labels.

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.examples import Examples
from triton_ads.data.split import Part
from triton_ads.features.vocabulary import Tables
from triton_ads.manifest import RouterManifest, TierManifest
from triton_ads.recipe import Recipe
from triton_ads.routing.gain import GainModel
from triton_ads.routing.journey import JourneyFeatures
from triton_ads.training.gain import Floats, Requests, fit_gain, losses
from triton_ads.training.routing_curve import Mix, mean_flops, points

#: Logits of a part under a tier: float [n, K], of its examples in time order.
Logits = dict[Part, dict[str, NDArray[np.floating]]]


def train_router(
    recipe: Recipe, data_folder: Path, logits: Logits, tiers: dict[str, TierManifest], folder: Path
) -> None:
    """Fit the router on the validation part, and judge it on the test part. Writes into `folder`:

        gain.json          the model, in the form of GainParameters
        router.json        for the manifest, in the form of RouterManifest
        curves.json        {learned, random, length: [{share, flops, auc, log_loss}]} on the test part

    Args:
        data_folder: what `triton_ads.data.prepare` wrote.
        logits: of validation and test part, of the default and the high tier, as they are served.
        tiers: for what they cost.
    """
    examples = Examples.load(recipe, data_folder / "examples")
    features = JourneyFeatures(recipe, Tables.load(recipe, data_folder / "vocabularies").table_rows)
    default, high = recipe.router.default_tier, str(recipe.router.high_tier)

    parts: tuple[Part, ...] = ("validation", "test")
    fitted, mix = {}, {}
    for part in parts:
        requests = Requests.of(examples, part)
        label_nK = examples.arrays["labels"][requests.positions_n]
        of_default, of_high = (logits[part][tier].astype(np.float64) for tier in (default, high))
        mix[part] = Mix(requests, label_nK, of_default, of_high)
        fitted[part] = requests.features(examples, features)
    parameters, penalty = fit_gain(
        features.names, fitted["validation"], realised(mix["validation"]), mix["validation"].requests.size
    )

    test_RX, gain_R = fitted["test"], realised(mix["test"])
    predicted_R = GainModel(parameters)(test_RX)
    flops = mean_flops(tiers[default], tiers[high])
    curves = {"learned": mix["test"].by_value(predicted_R), "random": mix["test"].at_random()}
    length = [i for i, name in enumerate(features.names) if name.endswith(" events")]
    if length:
        curves["length"] = mix["test"].by_value(test_RX[:, length].max(axis=1))
    best_R = np.argsort(-predicted_R, kind="stable")[: max(1, len(gain_R) // 4)]
    found = RouterManifest(
        features=len(features.names),
        penalty=penalty,
        requests={part: len(m.requests.first_R) for part, m in mix.items()},
        gain=float(gain_R.mean()),
        gain_of_best_quarter=float(gain_R[best_R].mean()),
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gain.json").write_text(parameters.model_dump_json(indent=1) + "\n")
    (folder / "router.json").write_text(found.model_dump_json(indent=1) + "\n")
    shown = {name: points(curve, flops) for name, curve in curves.items()}
    (folder / "curves.json").write_text(json.dumps(shown, indent=1) + "\n")


def realised(mix: Mix) -> Floats:
    """What the high tier gained on each request, [R]: see `triton_ads.training.gain`."""
    return mix.requests.mean(losses(mix.label_nK, mix.default_nK) - losses(mix.label_nK, mix.high_nK))
