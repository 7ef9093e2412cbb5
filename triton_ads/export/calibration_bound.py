"""The bound on predicted over actual: tiers whose probabilities promise too much or too little are not released."""

from collections.abc import Mapping

from triton_ads.manifest import PredictedOverActual, TierManifest
from triton_ads.recipe import Recipe


class CalibrationError(ValueError):
    """Probabilities out of bound; the message says of which tier, label and scenario, by how much, and what to do."""


def check_calibration(recipe: Recipe, tiers: Mapping[str, TierManifest]) -> None:
    """Hold what was measured on the test part to the recipe's bounds.

    A sum with fewer than `calibration.min_examples` positives or negatives says too little to be judged.

    Raises:
        CalibrationError: naming everything that is out of bound.
    """
    found = []
    for tier, manifest in tiers.items():
        for sums in manifest.calibration:
            field = "tolerance" if sums.scenario is None else "scenario_tolerance"
            highest = highest_ratio(recipe, sums)
            if highest is not None and not 1 / highest <= sums.ratio <= highest:
                found.append(f"{_where(tier, sums)}, {1 / highest:.3f} to {highest:.3f} allowed (calibration.{field})")
    if found:
        raise CalibrationError("\n".join([*found, *_HOW_TO_GO_ON]))


def highest_ratio(recipe: Recipe, sums: PredictedOverActual) -> float | None:
    """The bound of a sum, whose inverse is the lowest ratio; None: it has too few examples to be held to one."""
    settings = recipe.calibration
    if min(sums.positives, sums.examples - sums.positives) < settings.min_examples:
        return None
    return 1 + (settings.tolerance if sums.scenario is None else settings.scenario_tolerance)


_HOW_TO_GO_ON = (
    "Nothing was released. What the recipe can change:",
    "  calibration.method: platt or isotonic, where the validation part shows the same fault",
    "  data: more recent examples, where base rates have moved since the validation part",
    "  calibration.tolerance or scenario_tolerance: a wider bound, where this much is acceptable",
)


def _where(tier: str, sums: PredictedOverActual) -> str:
    scenario = "" if sums.scenario is None else f", scenario {sums.scenario}"
    return (
        f"tier {tier}, label {sums.label}{scenario}: predicted over actual is {sums.ratio:.3f} on the test part "
        f"({sums.predicted:.0f} predicted, {sums.positives} of {sums.examples} examples positive)"
    )
