"""One real build of the tiny recipe, shared by the tests that only read it."""

from pathlib import Path

import pytest

from triton_ads.data import movielens
from triton_ads.pipeline.build import build
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.runner import Selection
from triton_ads.recipe import Recipe, load_recipe

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "recipes" / "tiny.yaml"


@pytest.fixture(scope="session")
def tiny() -> Recipe:
    return load_recipe(TINY)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Every stage of tests/recipes/tiny.yaml, run once; read only."""
    wheel = movielens.fetch(ROOT / "var" / "downloads")
    var = tmp_path_factory.mktemp("var")
    (var / "downloads").mkdir()
    (var / "downloads" / wheel.name).symlink_to(wheel)
    return build(TINY, var, Selection())
