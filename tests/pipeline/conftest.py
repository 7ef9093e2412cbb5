"""One real build of the tiny recipe, shared by the tests that only read it."""

from pathlib import Path

import pytest

from tests.support.builds import build_once
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe, load_recipe

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "recipes" / "tiny.yaml"
TINY_TARGET = ROOT / "tests" / "recipes" / "tiny_target.yaml"


@pytest.fixture(scope="session")
def tiny() -> Recipe:
    return load_recipe(TINY)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Every stage of tests/recipes/tiny.yaml, run once; read only."""
    return build_once(TINY, tmp_path_factory)


@pytest.fixture(scope="session")
def built_target(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Every stage of tests/recipes/tiny_target.yaml, run once; read only."""
    return build_once(TINY_TARGET, tmp_path_factory)
