"""Stage `train TIER`: a tier's checkpoint, and its quality on validation and test examples."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.training import train


def run(recipe: Recipe, layout: Layout, tier: str) -> Sequence[Path]:
    train(recipe, tier, layout.work("data"), layout.work("train", tier))
    return ()
