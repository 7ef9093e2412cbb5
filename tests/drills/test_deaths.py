"""Processes are killed under load: clients that ask again are answered, and other recipes notice nothing."""

import os
import signal
import time

import pytest

from tests.drills.traffic import Traffic, check_no_mixture, questions_alone
from tests.support.tiny_release import tiny_recipe, write_tiny_release
from triton_ads.client import RankTimeoutError, ServerUnavailableError
from triton_ads.export.repository import write_repository
from triton_ads.recipe import parse_recipe
from triton_ads.server import TritonServer
from triton_ads.server.watchdog import WatchdogLimits

pytestmark = pytest.mark.server

RECIPES = ("a", "b")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A server of two recipes."""
    folder = tmp_path_factory.mktemp("deaths")
    for name in RECIPES:
        document = tiny_recipe(prefix=name).model_dump(mode="json")
        write_repository(
            write_tiny_release(folder / name, parse_recipe({**document, "name": name})), folder / "repository"
        )
    with TritonServer(folder / "repository", limits=WatchdogLimits(canary_period_s=1.0, drain_s=0.5)) as server:
        yield server


def recovered(server, before, limit_s=20.0):
    """Seconds until the watchdog has done something, and says that all is well."""
    began = time.monotonic()
    while server.watchdog.counts.reloads + server.watchdog.counts.restarts == before or not server.watchdog.ready:
        assert time.monotonic() - began < limit_s
        time.sleep(0.02)
    return time.monotonic() - began


def repairs(server):
    return server.watchdog.counts.reloads + server.watchdog.counts.restarts


def test_a_killed_stub_is_replaced_and_the_other_recipe_goes_on(two, report):
    alone = {name: questions_alone(two, f"{name}_rank") for name in RECIPES}
    before, restarts = repairs(two), two.watchdog.counts.restarts
    victim = next(stub for stub in two.process.stubs() if stub.model == "a_rank")
    with (
        Traffic(two, clients=4, retries=8, model="a_rank", timeout_s=10) as mine,
        Traffic(two, clients=2, model="b_rank") as other,
    ):
        mine.wait(50)
        os.kill(victim.pid, signal.SIGKILL)
        seconds = recovered(two, before)
        mine.wait(50)
        other.wait(10)
    # What lay in the slow lane of the dead process is answered by nobody: its client waits for as long as it wants to.
    assert {type(error) for error in mine.errors} <= {RankTimeoutError}
    assert len(mine.errors) <= mine.clients
    check_no_mixture(mine.answers, alone["a"])
    check_no_mixture(other.answers, alone["b"])
    if two.watchdog.counts.restarts == restarts:
        assert other.errors == []  # without any retry
        how = "the model was loaded again"
    else:
        # One kill in 25 takes the wheel's server with it (docs/drills.md).
        assert {type(error) for error in other.errors} <= {ServerUnavailableError, RankTimeoutError}
        how = "the server died of it and was started again"
    report("killed stub", f"well after {seconds:.1f} s: {how}; {len(mine.errors)} under way never answered")


def test_a_killed_server_under_load_costs_no_request_that_is_asked_again(two, report):
    alone = questions_alone(two, "a_rank")
    before = repairs(two)
    with Traffic(two, retries=8, model="a_rank") as traffic:
        traffic.wait(100)
        os.kill(two.process.server_pid(), signal.SIGKILL)
        seconds = recovered(two, before)
        traffic.wait(100)
    assert traffic.errors == []
    check_no_mixture(traffic.answers, alone)
    slowest = max(s for _, s, _, _ in traffic.answers)
    report("killed server", f"back after {seconds:.1f} s, slowest answer {slowest:.1f} s, none lost")
