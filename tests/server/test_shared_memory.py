"""Files in /dev/shm of servers that nobody could clean up after."""

import os
import secrets
import signal
import subprocess
import sys
import time

import pytest

from triton_ads.server.processes import SHARED_MEMORY, read_process, shared_regions
from triton_ads.server.shared_memory import RegionLock, sweep_regions

HOLDER = """
import sys
from triton_ads.server.shared_memory import RegionLock
RegionLock(sys.argv[1]).hold()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def prefix():
    name = f"triton_ads_test_{secrets.token_hex(4)}_"
    yield name
    for path in SHARED_MEMORY.glob(f"{name.removesuffix('_')}*"):
        path.unlink()


def test_what_a_killed_server_left_is_removed_and_nothing_before_it_is_dead(prefix):
    (SHARED_MEMORY / f"{prefix}region").write_bytes(b"x")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, prefix], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        sweep_regions()
        assert set(shared_regions(prefix)) == {f"{prefix}region"}
        os.kill(holder.pid, signal.SIGKILL)
    assert f"{prefix}region" in sweep_regions()
    assert shared_regions(prefix) == {}
    assert not (SHARED_MEMORY / f"{prefix.removesuffix('_')}.lock").exists()


def test_a_lock_that_is_let_go_leaves_nothing(prefix):
    lock = RegionLock(prefix)
    assert lock.files == ()
    lock.hold()
    assert len(lock.files) == 1
    lock.release()
    lock.release()
    assert list(SHARED_MEMORY.glob(f"{prefix.removesuffix('_')}*")) == []


@pytest.mark.server
def test_a_start_sweeps_what_a_launcher_and_a_guardian_that_were_killed_have_left(repository, prefix):
    """Both at once: nobody is left to clean up."""
    run = "import sys; from pathlib import Path; from triton_ads.server import TritonServer\n"
    run += "server = TritonServer(Path(sys.argv[1])); server.start()\n"
    run += "print(server.process.shm_prefix, server.process._guardian.pid, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", run, str(repository)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as launcher:
        assert launcher.stdout is not None
        left, guardian = launcher.stdout.readline().split()
        assert shared_regions(left) != {}
        os.kill(launcher.pid, signal.SIGSTOP)  # or it would see the guardian go
        os.kill(int(guardian), signal.SIGKILL)
        os.kill(launcher.pid, signal.SIGKILL)
    while (process := read_process(int(guardian))) is not None and process.alive:
        time.sleep(0.01)
    assert shared_regions(left) != {}
    sweep_regions()
    assert shared_regions(left) == {}
