"""A learned router on the real server: choices with their reasons, and a budget that follows what others report."""

import time
from collections.abc import Iterator

import pytest

from tests.support.learned_release import learned_recipe, write_learned_release
from tests.support.tiny_release import ITEMS, USERS
from triton_ads.client import RankClient, RankError
from triton_ads.export.repository import write_repository
from triton_ads.server import TritonServer
from triton_ads.server.watchdog import WatchdogLimits

PER_SECOND = 100
LONG_JOURNEY, NO_JOURNEY = USERS[15], USERS[0]


@pytest.fixture(scope="module")
def learned_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    folder = tmp_path_factory.mktemp("learned")
    recipe = learned_recipe(high_candidates_per_second=PER_SECOND)
    release = write_learned_release(folder / "release", recipe, **{"recent events": 1.0}, bias=-1.0)
    write_repository(release, folder / "repository")
    with TritonServer(folder / "repository", limits=WatchdogLimits(canary_period_s=3600)) as running:
        yield running


@pytest.fixture
def client(learned_server: TritonServer) -> Iterator[RankClient]:
    with RankClient(learned_server.grpc_url, "grpc", timeout_s=30, labels=("cvr", "dcvr")) as running:
        yield running


def ask(client: RankClient) -> str:
    """The reason given to a request for half a second's budget."""
    return client.rank(list(ITEMS[: PER_SECOND // 2]), user_id=LONG_JOURNEY).reason


def until_high(client: RankClient, seconds: float) -> str:
    """The last reason when the high tier was given, or when the time is over."""
    end, reason = time.monotonic() + seconds, ""
    while time.monotonic() < end and reason != "predicted_gain":
        reason = ask(client)
        time.sleep(0.05)
    return reason


def test_the_budget_follows_the_requests_that_come_too_late(client: RankClient) -> None:
    assert client.rank(list(ITEMS[:5]), user_id=NO_JOURNEY).reason == "low_gain"
    assert until_high(client, 20) == "predicted_gain"
    end = time.monotonic() + 4
    while time.monotonic() < end:
        # On a busy machine the client may give up before it hears so; the server refuses all the same.
        with pytest.raises(RankError, match=r"deadline exceeded|no answer"):
            client.rank(list(ITEMS[:5]), user_id=NO_JOURNEY, deadline_ms=0.001)
    # With less than half of the recipe's budget the bucket never holds what the request needs.
    assert {ask(client) for _ in range(10)} <= {"budget", "low_gain"}
    assert until_high(client, 60) == "predicted_gain"
