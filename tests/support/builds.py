"""Whole builds of small recipes on the real data, which is fetched once for all of them."""

from pathlib import Path

import pytest

from triton_ads.data import movielens
from triton_ads.pipeline.build import build
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.runner import Selection

ROOT = Path(__file__).parents[2]


def build_once(recipe: Path, factory: pytest.TempPathFactory) -> Layout:
    """Every stage of a recipe of MovieLens, in a folder of its own."""
    wheel = movielens.fetch(ROOT / "var" / "downloads")
    var = factory.mktemp("var")
    (var / "downloads").mkdir()
    (var / "downloads" / wheel.name).symlink_to(wheel)
    return build(recipe, var, Selection())
