"""Stage `calibrate TIER`: maps that make a tier's probabilities honest, and how honest they are then."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.training.calibrate import calibrate


def run(recipe: Recipe, layout: Layout, tier: str) -> Sequence[Path]:
    calibrate(recipe, layout.work("data"), layout.work("train", tier), layout.work("calibrate", tier))
    return ()
