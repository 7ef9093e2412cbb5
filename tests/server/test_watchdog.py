"""The watchdog on real servers: what dies is back within 10 s, and nothing else is touched."""

import contextlib
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from tests.support.echo_repository import MODEL, write_echo
from tests.support.tiny_release import ITEMS, USERS
from triton_ads.client import RankClient, RankError, RankTimeoutError
from triton_ads.client.transport import HttpTransport
from triton_ads.export.repository import write_repository
from triton_ads.server import TritonServer, watchdog
from triton_ads.server.install import find_server
from triton_ads.server.launcher import LaunchOptions, ServerProcess
from triton_ads.server.processes import read_process, session_members, shared_regions
from triton_ads.server.watchdog import Watchdog, WatchdogLimits

pytestmark = pytest.mark.server

RECOVERY_S = 10.0
#: Short periods, so that the tests are; the defaults are a few times longer.
QUICK = WatchdogLimits(canary_period_s=1.0, canary_timeout_s=1.5, drain_s=0.5)
MODELS = ("router", "user_encoder", "item_scorer")


@pytest.fixture(scope="module")
def watched(repository):
    """A server of its own: it is hurt again and again."""
    with TritonServer(repository, limits=QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def repository(repository, tmp_path_factory):
    """In the layout of most processes."""
    folder = tmp_path_factory.mktemp("watched") / "repository"
    write_repository(repository / "rank" / "1" / "release", folder, "ensemble")
    return folder


def until(condition, limit_s=RECOVERY_S):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {limit_s} s"
        time.sleep(0.02)


def pids(server, model):
    return server.watchdog.status()["models"][model]


def get(server, path):
    """Status and JSON of the watchdog's endpoint."""
    try:
        with urllib.request.urlopen(server.health_url + path, timeout=2) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def ask_until_well(client, expected):
    """Ask all the time until 20 answers in a row are right; returns the seconds that took and the slowest failure."""
    began, slowest, right = time.monotonic(), 0.0, 0
    while right < 20:
        asked = time.monotonic()
        assert asked - began < RECOVERY_S, "no recovery in time"
        try:
            ranking = client.rank(ITEMS[:20], user_id=USERS[7], tier="high")
        except RankError:
            slowest, right = max(slowest, time.monotonic() - asked), 0
            time.sleep(0.02)
        else:
            np.testing.assert_allclose(ranking.scores, expected.scores, rtol=0, atol=1e-6)
            right += 1
    return time.monotonic() - began, slowest


@pytest.mark.parametrize(
    ("protocol", "model"), [("grpc", "router"), ("http", "user_encoder"), ("grpc", "item_scorer"), ("http", "router")]
)
def test_a_killed_stub_is_back_within_10_s(watched, protocol, model):
    url = watched.grpc_url if protocol == "grpc" else watched.http_url
    with RankClient(url, protocol, timeout_s=3) as client:
        expected = client.rank(ITEMS[:20], user_id=USERS[7], tier="high")
        before = watched.watchdog.status()["counts"]
        (victim,) = pids(watched, model)
        os.kill(victim, signal.SIGKILL)
        seconds, slowest = ask_until_well(client, expected)
    until(lambda: watched.watchdog.ready)
    after = watched.watchdog.status()["counts"]
    assert seconds < RECOVERY_S
    assert slowest < RECOVERY_S / 2  # Triton answers for a dead stub after a second; others may want the cores
    assert after["dead_stubs"] == before["dead_stubs"] + 1
    assert after["reloads"] + after["restarts"] == before["reloads"] + before["restarts"] + 1
    assert pids(watched, model) != [victim]


def test_a_killed_server_is_back_within_10_s_at_the_same_addresses(watched):
    with RankClient(watched.grpc_url, timeout_s=3) as client:
        expected = client.rank(ITEMS[:20], user_id=USERS[7], tier="high")
        before = watched.watchdog.status()["counts"]
        os.kill(watched.process.server_pid(), signal.SIGKILL)
        ask_until_well(client, expected)
    until(lambda: watched.watchdog.ready)
    after = watched.watchdog.status()["counts"]
    assert (after["dead_servers"], after["restarts"]) == (before["dead_servers"] + 1, before["restarts"] + 1)
    assert len(shared_regions(watched.process.shm_prefix)) == len(MODELS)  # those of the dead server are gone


def test_a_stub_that_hangs_is_found_by_the_canary(watched):
    with RankClient(watched.grpc_url, timeout_s=3) as client:
        expected = client.rank(ITEMS[:20], user_id=USERS[7], tier="high")
        before = watched.watchdog.status()["counts"]
        (victim,) = pids(watched, "user_encoder")
        os.kill(victim, signal.SIGSTOP)
        until(lambda: get(watched, "/ready")[0] == 503)
        ask_until_well(client, expected)
    until(lambda: watched.watchdog.ready)
    after = watched.watchdog.status()["counts"]
    assert after["canary_failures"] >= before["canary_failures"] + 2
    assert after["restarts"] == before["restarts"] + 1
    assert read_process(victim) is None or not read_process(victim).alive


def test_the_endpoint_says_how_things_are(watched):
    assert get(watched, "/live") == (200, {"live": True})
    assert get(watched, "/ready") == (200, {"ready": True, "reason": ""})
    code, status = get(watched, "/status")
    assert (code, status["state"], status["ready"], status["failures"]) == (200, "ready", True, {})
    assert set(status["models"]) == {*MODELS, "rank"}
    assert status["ports"] == watched.process.ports
    assert status["counts"]["canaries"] > 0
    assert get(watched, "/")[0] == 404


def test_a_stop_right_after_a_stub_was_killed_is_bounded_and_leaves_nothing(repository):
    """Triton's own SIGTERM then waits for a stub that is no more."""
    with TritonServer(repository, stop_timeout_s=2) as server:
        session, prefix = server.process._guardian.pid, server.process.shm_prefix
        os.kill(pids(server, "item_scorer")[0], signal.SIGKILL)
        began = time.monotonic()
    assert time.monotonic() - began < 4
    assert session_members(session) == []
    assert shared_regions(prefix) == {}


@pytest.fixture
def echo(tmp_path):
    """A server whose one model has two instances, and no canary."""
    write_echo(tmp_path / "repository", "echo", instances=2)
    limits = WatchdogLimits(drain_s=0.5, reloads=2, attempts=2, backoff_s=0.1, scan_period_s=0.5)
    with TritonServer(tmp_path / "repository", limits=limits, stop_timeout_s=1) as running:
        yield running


def counts(server):
    status = server.watchdog.status()["counts"]
    return {name: number for name, number in status.items() if number}


def test_of_several_instances_all_are_replaced_the_old_ones_end_and_often_means_a_restart(echo):
    old = pids(echo, "echo")
    assert len(old) == 2
    for round_ in (1, 2):
        os.kill(pids(echo, "echo")[0], signal.SIGKILL)
        until(lambda number=round_: counts(echo).get("reloads") == number and echo.watchdog.ready)
        assert not set(old) & set(pids(echo, "echo"))
        # The second old instance lived on; it has had its time to answer, and its memory goes with it.
        until(lambda: len(echo.process.stubs()) == 2 and len(shared_regions(echo.process.shm_prefix)) == 2)
        assert sorted(stub.pid for stub in echo.process.stubs()) == sorted(pids(echo, "echo"))
        old = pids(echo, "echo")
    os.kill(old[1], signal.SIGKILL)
    until(lambda: counts(echo) == {"dead_stubs": 3, "reloads": 2, "restarts": 1} and echo.watchdog.ready)
    assert len(pids(echo, "echo")) == 2


def test_what_is_loaded_again_on_purpose_is_no_death(echo):
    old = pids(echo, "echo")
    control = echo.process.control
    control.unload("echo", 5)
    until(lambda: echo.process.stubs() == [])
    control.load("echo", 5)
    until(lambda: len(pids(echo, "echo")) == 2 and not set(old) & set(pids(echo, "echo")))
    time.sleep(3 * echo.watchdog.limits.period_s)
    assert counts(echo) == {}
    assert echo.watchdog.ready


def test_a_server_that_is_only_slow_is_left_alone(tmp_path):
    """The canary never succeeds; as long as the model answers others, that is no reason to restart."""
    write_echo(tmp_path / "repository")
    ports = {"gRPC": 0, "HTTP": 0, "metrics": 0}
    process = ServerProcess(
        LaunchOptions(tmp_path / "repository", tmp_path, False, ports, stop_timeout_s=0.5), find_server()
    )

    def never(_timeout_s):
        if not idle.is_set():
            http.infer("echo", {"x": np.array([[1]], np.int64)}, 5)
        raise RankTimeoutError("late")

    idle = threading.Event()
    process.start()
    http = HttpTransport(process.control.url)
    dog = Watchdog(process, never, WatchdogLimits(period_s=0.1, canary_period_s=0.1))
    try:
        dog.start()
        until(lambda: dog.counts.canary_failures >= 6)
        assert dog.counts.restarts == 0
        until(lambda: dog.ready)
        idle.set()
        until(lambda: dog.counts.restarts >= 1)
    finally:
        dog.stop()
        process.stop()


def test_a_repository_that_may_not_be_written_is_reloaded_by_unloading(echo, monkeypatch):
    def refuse(_path):
        raise PermissionError

    monkeypatch.setattr(watchdog.os, "utime", refuse)
    os.kill(pids(echo, "echo")[0], signal.SIGKILL)
    until(lambda: counts(echo) == {"dead_stubs": 1, "reloads": 1} and echo.watchdog.ready)


def test_what_cannot_be_repaired_is_given_up_after_bounded_attempts(echo, caplog):
    source = echo.process.stubs()[0].source
    source.write_text(MODEL.format(initialize='raise RuntimeError("broken by the test")'))
    os.kill(pids(echo, "echo")[0], signal.SIGKILL)
    until(lambda: echo.watchdog.state == "gave up", 20)
    assert counts(echo) == {"dead_stubs": 1, "reloads": 1, "restarts": 2, "failed_recoveries": 2}
    assert (get(echo, "/live")[0], get(echo, "/ready")[0]) == (503, 503)
    assert "broken by the test" in get(echo, "/status")[1]["reason"]
    assert "gave up after 2 attempts" in caplog.text
    assert echo.process.members() == []


def test_a_stop_in_the_middle_of_a_recovery_is_bounded(tmp_path):
    """The model takes its time when it is loaded for the second time."""
    flag = tmp_path / "slow"
    statement = f"import os, time; time.sleep(30 if os.path.exists({str(flag)!r}) else 0)"
    for by in ("stub", "server"):
        repository = write_echo(tmp_path / by, "echo", initialize=statement)
        with contextlib.suppress(FileNotFoundError):
            flag.unlink()
        with TritonServer(repository, stop_timeout_s=0.5) as server:
            session = server.process._guardian.pid
            flag.touch()
            os.kill(server.process.server_pid() if by == "server" else pids(server, "echo")[0], signal.SIGKILL)
            until(lambda s=server: s.watchdog.state == "recovering")
            time.sleep(0.5)
            began = time.monotonic()
        assert time.monotonic() - began < 6
        assert [p for p in session_members(session) if p.alive] == []
