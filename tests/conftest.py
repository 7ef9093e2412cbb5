"""Fixtures that every folder of tests shares. A test that uses a server of them is marked `server` by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.tiny_release import tiny_recipe, write_tiny_release
from triton_ads.client import RankClient
from triton_ads.export.repository import write_repository
from triton_ads.recipe import Recipe
from triton_ads.server import TritonServer
from triton_ads.server.watchdog import WatchdogLimits

MAX_CANDIDATES = 1000

# How long an example takes says how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"server", "ensemble_server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.server)


@pytest.fixture(scope="session")
def recipe() -> Recipe:
    """The tiny recipe, with room for 1,000 candidates."""
    return tiny_recipe(max_candidates=MAX_CANDIDATES)


@pytest.fixture(scope="session")
def repository(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model repository on the tiny release; read only."""
    folder = tmp_path_factory.mktemp("tiny")
    write_repository(write_tiny_release(folder / "release", recipe), folder / "repository")
    return folder / "repository"


@pytest.fixture(scope="session")
def server(repository: Path) -> Iterator[TritonServer]:
    """One real Triton for all tests that leave it as it is; who kills something starts another."""
    # Its canary is counted as a cold start: none while tests compare counts.
    with TritonServer(repository, limits=WatchdogLimits(canary_period_s=3600)) as running:
        yield running


@pytest.fixture(scope="session")
def ensemble_server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """The same release in the layout `ensemble`."""
    folder = tmp_path_factory.mktemp("ensemble") / "repository"
    write_repository(repository / "rank" / "1" / "release", folder, "ensemble")
    with TritonServer(folder, limits=WatchdogLimits(canary_period_s=3600)) as running:
        yield running


@pytest.fixture(scope="session")
def grpc(server: TritonServer) -> Iterator[RankClient]:
    with RankClient(server.grpc_url, "grpc", timeout_s=30, labels=("cvr", "dcvr")) as client:
        yield client


@pytest.fixture(scope="session")
def http(server: TritonServer) -> Iterator[RankClient]:
    with RankClient(server.http_url, "http", timeout_s=30, labels=("cvr", "dcvr")) as client:
        yield client


@pytest.fixture(params=["grpc", "http"])
def client(request: pytest.FixtureRequest) -> RankClient:
    """Both protocols, one after the other."""
    running: RankClient = request.getfixturevalue(request.param)
    return running
