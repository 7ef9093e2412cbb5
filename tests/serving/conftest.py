from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chain import Chain, Single
from tests.support.rank_reference import RankReference
from tests.support.tiny_release import tiny_recipe, write_tiny_release


@pytest.fixture(scope="session")
def release_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny release: tiles of 8, at most 4 in a run. Read only."""
    recipe = tiny_recipe(max_candidates=2000)
    return write_tiny_release(tmp_path_factory.mktemp("serving") / "release", recipe)


@pytest.fixture(params=["ensemble", "single"])
def layout(request: pytest.FixtureRequest, release_folder: Path) -> Iterator[Chain]:
    """What answers for `rank`, in either layout."""
    running = {"ensemble": Chain, "single": Single}[request.param](release_folder)
    yield running
    running.close()


@pytest.fixture
def chain(release_folder: Path) -> Iterator[Chain]:
    """The three models of the ensemble."""
    running = Chain(release_folder)
    yield running
    running.close()


@pytest.fixture(scope="session")
def reference(release_folder: Path) -> RankReference:
    return RankReference(release_folder, tiny_recipe(max_candidates=2000))
