"""How scores are made honest, and how far off they may be."""

from typing import Literal

from pydantic import Field

from triton_ads.recipe.base import Float, Int, Part


class Calibration(Part):
    """A map from a tier's scores to calibrated ones, and a bound on predicted over actual. See docs/calibration.md."""

    method: Literal["none", "platt", "isotonic"] = Field(
        default="none", description="none: scores as trained; platt: a line; isotonic: a growing curve; of the logit"
    )
    by_scenario: bool = Field(default=True, strict=True, description="a map for each scenario that has enough examples")
    min_examples: Int = Field(
        default=200, ge=1, description="positives, and negatives, without which a scenario has no map and no bound"
    )
    tolerance: Float = Field(
        default=0.2, gt=0, le=1000, description="t: predicted over actual must lie in [1 / (1 + t), 1 + t]"
    )
    scenario_tolerance: Float = Field(default=0.5, gt=0, le=1000, description="the same within a scenario")
