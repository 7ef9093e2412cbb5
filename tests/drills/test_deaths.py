"""Processes are killed under load: clients with retries get every answer, and other recipes notice nothing."""

import os
import signal
import time

import pytest

from tests.drills.traffic import Traffic, check_no_mixture, questions_alone
from tests.support.tiny_release import tiny_recipe, write_tiny_release
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


def test_a_killed_stub_is_replaced_and_nobody_with_retries_notices(two):
    alone = {name: questions_alone(two, f"{name}_rank") for name in RECIPES}
    for model in sorted({stub.model for stub in two.process.stubs() if stub.model.startswith("a_")}):
        victim = next(stub for stub in two.process.stubs() if stub.model == model)
        before = repairs(two)
        with (
            Traffic(two, clients=4, retries=8, model="a_rank") as mine,
            Traffic(two, clients=2, model="b_rank") as other,
        ):
            mine.wait(50)
            os.kill(victim.pid, signal.SIGKILL)
            killed = time.monotonic()
            seconds = recovered(two, before)
            mine.wait(50)
        assert mine.errors == []
        assert other.errors == []  # without any retry
        check_no_mixture(mine.answers, alone["a"])
        check_no_mixture(other.answers, alone["b"])
        slowest = max(s for at, s, _, _ in mine.answers if at >= killed - 0.1)
        print(f"{model}: replaced after {seconds:.1f} s, slowest answer {slowest:.1f} s")
    assert two.watchdog.counts.restarts == 0


def test_a_killed_server_under_load_costs_no_request_that_is_asked_again(two):
    alone = questions_alone(two, "a_rank")
    before = repairs(two)
    with Traffic(two, retries=8, model="a_rank") as traffic:
        traffic.wait(100)
        os.kill(two.process.server_pid(), signal.SIGKILL)
        seconds = recovered(two, before)
        traffic.wait(100)
    assert traffic.errors == []
    check_no_mixture(traffic.answers, alone)
    print(f"server: back after {seconds:.1f} s, slowest answer {max(s for _, s, _, _ in traffic.answers):.1f} s")
