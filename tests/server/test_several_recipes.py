"""Several recipes on one real server: each with its own names and limits, and none in the way of another."""

import os
import signal
import threading
import time

import pytest

from tests.support.tiny_release import tiny_recipe, write_tiny_release
from triton_ads.client import RankClient, RankError
from triton_ads.export.repository import write_repository
from triton_ads.recipe import parse_recipe
from triton_ads.recipe.names import askable
from triton_ads.server import ServerStartError, TritonServer
from triton_ads.server.canary import RankCanary
from triton_ads.server.metrics import settled_metric
from triton_ads.server.watchdog import WatchdogLimits

pytestmark = pytest.mark.server

QUICK = WatchdogLimits(canary_period_s=1.0, canary_timeout_s=2.0, drain_s=0.5)
LIMITS = {"a": 10, "b": 20}


def write_two(folder):
    """Recipes a and b, with 10 and 20 candidates at most and other deadlines, in one repository."""
    for name, most in LIMITS.items():
        document = tiny_recipe(prefix=name, max_candidates=most).model_dump(mode="json")
        release = write_tiny_release(folder / name, parse_recipe({**document, "name": name}))
        write_repository(release, folder / "repository")
    return folder / "repository"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with TritonServer(write_two(tmp_path_factory.mktemp("two")), limits=QUICK) as server:
        yield server


def clients(server, **options):
    return {name: RankClient(server.grpc_url, model=f"{name}_rank", **options) for name in LIMITS}


def test_each_answers_within_its_own_limits(two):
    assert set(two.models) == {f"{name}_rank" for name in LIMITS}
    for name, client in clients(two, timeout_s=30).items():
        with client:
            most = LIMITS[name]
            ranking = client.rank(range(1000, 1000 + most), user_id=100)
            assert sorted(ranking.ids.tolist()) == list(range(1000, 1000 + most))
            with pytest.raises(RankError, match=rf"candidates: {most + 1} found, at most {most} allowed"):
                client.rank(range(1000, 1001 + most), user_id=100)


def test_there_is_no_ensemble_without_a_prefix(two):
    with RankClient(two.grpc_url) as client, pytest.raises(RankError, match="unknown model: 'rank'"):
        client.rank([1000])


def test_metrics_tell_them_apart(two):
    def requests(name):
        return settled_metric(two.metrics_url, "triton_ads_batched_requests_total", model=f"{name}_rank")

    with RankClient(two.grpc_url, model="a_rank", timeout_s=30) as client:
        before = requests("a")
        for _ in range(20):
            client.rank([1000], user_id=100)
        assert requests("a") - before >= 20


def test_a_killed_stub_of_one_does_not_disturb_the_other(two):
    ended = threading.Event()
    answered, failed = [], []

    def ask_a():
        with RankClient(two.grpc_url, model="a_rank", timeout_s=5) as client:
            while not ended.is_set():
                try:
                    client.rank([1000, 1001], user_id=100)
                    answered.append(time.monotonic())
                except RankError as error:
                    failed.append(error)

    before = two.watchdog.status()
    pids = {model: stubs for model, stubs in before["models"].items() if model.startswith("a_")}
    asking = threading.Thread(target=ask_a)
    asking.start()
    try:
        os.kill(before["models"]["b_rank"][0], signal.SIGKILL)
        end = time.monotonic() + 30
        while two.watchdog.status()["counts"]["reloads"] == before["counts"]["reloads"] or not two.watchdog.ready:
            assert time.monotonic() < end
            time.sleep(0.05)
        with RankClient(two.grpc_url, model="b_rank", timeout_s=30) as client:
            assert client.rank([1000], user_id=100).ids.tolist() == [1000]
    finally:
        ended.set()
        asking.join()
    after = two.watchdog.status()
    assert failed == []
    assert answered
    assert {model: stubs for model, stubs in after["models"].items() if model.startswith("a_")} == pids
    assert after["counts"]["restarts"] == before["counts"]["restarts"]


def test_the_canary_asks_every_ensemble_and_names_those_that_fail(two):
    asked = askable(two.process.options.repository, two.models)
    assert asked == ["a_rank", "b_rank"]
    RankCanary(two.http_url, lambda: asked)(30)
    with pytest.raises(RankError, match=r"^c_rank: .*unknown model: 'c_rank'"):
        RankCanary(two.http_url, lambda: [*asked, "c_rank"])(30)


@pytest.fixture
def broken(tmp_path):
    """Recipe b's release lacks a file that its scorer needs."""
    repository = write_two(tmp_path)
    (tmp_path / "b" / "tiers" / "high" / "item.onnx").unlink()
    return repository


def test_a_broken_recipe_is_told_and_the_other_served_where_that_is_wanted(broken):
    with pytest.raises(ServerStartError, match="b_rank"), TritonServer(broken):
        pass
    with TritonServer(broken, strict=False, limits=QUICK) as server:
        assert "b_rank" in server.process.failures
        assert "a_rank" in server.models
        assert "b_rank" not in server.models
        with RankClient(server.grpc_url, model="a_rank", timeout_s=30) as client:
            assert client.rank([1000], user_id=100).ids.tolist() == [1000]
        time.sleep(2.5)  # canaries go by
        status = server.watchdog.status()
        assert status["ready"]
        assert status["counts"]["canary_failures"] == 0
        assert status["counts"]["canaries"] > 0
