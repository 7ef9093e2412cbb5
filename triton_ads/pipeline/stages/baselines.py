"""Stage `baselines`: logistic regression and a factorization machine on the same split, to compare with."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.training.baselines import train_baselines


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    train_baselines(recipe, layout.work("data"), layout.work("baselines"))
    return ()
