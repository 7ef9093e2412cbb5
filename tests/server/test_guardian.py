"""The guardian with plain commands in the place of tritonserver."""

import os
import signal
import subprocess
import sys
import time

import pytest

from triton_ads.server.processes import SHARED_MEMORY, read_process, session_members

GRACE_S = 0.5


@pytest.fixture
def prefix():
    name = f"triton_ads_test_{os.getpid()}_{time.monotonic_ns()}_"
    (SHARED_MEMORY / (name + "region")).touch()
    yield name
    (SHARED_MEMORY / (name + "region")).unlink(missing_ok=True)


def guardian(prefix, script, launcher=None, temporary=None):
    command = [sys.executable, "-m", "triton_ads.server.guardian", "--launcher", str(launcher or os.getpid())]
    command += ["--shm-prefix", prefix, "--grace-s", str(GRACE_S)]
    command += ["--temporary", str(temporary)] if temporary else []
    command += ["--", "bash", "-c", script]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def living(session):
    return [p for p in session_members(session) if p.alive]


def until(condition, limit_s=5.0):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


STUBBORN = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo ready; while :; do sleep 1; done"


def test_a_stop_ends_even_those_that_ignore_it_and_removes_the_regions(prefix):
    with guardian(prefix, STUBBORN) as process:
        process.stdout.readline()
        assert len(living(process.pid)) >= 3
        began = time.monotonic()
        process.terminate()
        assert process.wait(5) == 0
        assert GRACE_S <= time.monotonic() - began < GRACE_S + 1
    assert living(process.pid) == []
    assert not (SHARED_MEMORY / (prefix + "region")).exists()


def test_a_server_that_obeys_is_not_waited_for(prefix, tmp_path):
    with guardian(prefix, "echo ready; exec sleep 60", temporary=tmp_path) as process:
        process.stdout.readline()
        began = time.monotonic()
        process.terminate()
        assert process.wait(5) == 0
        assert time.monotonic() - began < GRACE_S
    assert tmp_path.exists()  # the launcher lives, and has its own mind about it


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 128 + 9)])
def test_the_end_of_the_server_is_passed_on_and_its_children_end(prefix, script, status):
    with guardian(prefix, f"sleep 60 & echo ready; {script}") as process:
        assert process.wait(5) == status
    assert living(process.pid) == []
    assert not (SHARED_MEMORY / (prefix + "region")).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_launcher_whatever_its_cause_ends_everything(prefix, number, tmp_path):
    temporary = tmp_path / "temporary"
    (temporary / "backends").mkdir(parents=True)
    script = (
        f"{sys.executable} -m triton_ads.server.guardian --launcher $$ --shm-prefix {prefix} --grace-s {GRACE_S} "
        f"--temporary {temporary} "
        f'-- bash -c "echo ready; trap : TERM; while :; do sleep 1; done" & echo $!; wait'
    )
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True) as parent:
        pid = int(parent.stdout.readline())
        parent.stdout.readline()
        parent.send_signal(number)
        until(lambda: read_process(pid) is None or not read_process(pid).alive)
    until(lambda: living(parent.pid) == [])
    assert not temporary.exists()
    assert not (SHARED_MEMORY / (prefix + "region")).exists()


def test_a_launcher_that_is_gone_before_the_start(prefix):
    with guardian(prefix, "sleep 60", launcher=2**22 + 1) as process:
        assert process.wait(5) == 0
    assert living(process.pid) == []


def test_when_the_guardian_is_killed_the_kernel_kills_the_server(prefix):
    with guardian(prefix, "echo $$; exec sleep 60") as process:
        server = int(process.stdout.readline())
        process.kill()
        until(lambda: read_process(server) is None or not read_process(server).alive)
