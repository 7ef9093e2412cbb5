"""MovieLens-100k, fetched once into var/downloads and prepared once per session with the default recipe."""

from pathlib import Path

import pytest

from triton_ads.data import Examples, movielens
from triton_ads.data.log import Log
from triton_ads.data.prepare import prepare
from triton_ads.recipe import Recipe, load_recipe

ROOT = Path(__file__).parents[2]
DOWNLOADS = ROOT / "var" / "downloads"


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    return load_recipe(ROOT / "build" / "recipes" / "movielens.yaml")


@pytest.fixture(scope="session")
def wheel() -> Path:
    return movielens.fetch(DOWNLOADS)


@pytest.fixture(scope="session")
def log(wheel: Path) -> Log:
    return movielens.read(wheel)


@pytest.fixture(scope="session")
def prepared(recipe: Recipe, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    prepare(recipe, folder, wheel.parent)
    return folder


@pytest.fixture(scope="session")
def examples(recipe: Recipe, prepared: Path) -> Examples:
    return Examples.load(recipe, prepared / "examples")
