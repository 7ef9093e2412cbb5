"""The guardian: a small process between the launcher and tritonserver that outlives both and cleans up.

    launcher (your process)  ->  guardian  ->  tritonserver  ->  stub, stub, ...

It leads a session of its own, so that Ctrl-C in a terminal reaches the launcher alone and every process of the
server can be found. It stops the server when it is told to (SIGTERM), when the launcher is gone, whatever killed it,
and it ends when the server ends. In each case it then kills what is left of the session and removes the session's
files in /dev/shm: Triton leaves both behind when a stub was killed. Should the guardian itself be killed, the kernel
kills tritonserver (PR_SET_PDEATHSIG), and the stubs end by themselves when they miss it.

Exit status: 0 after a stop that was asked for; else the server's, or 128 + the signal that killed it.
"""

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from triton_ads.server.processes import kill_process, remove_regions, session_members
from triton_ads.server.shared_memory import remove_lock

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PERIOD_S = 0.05
_KILL_TIMEOUT_S = 5.0


def guard(command: list[str], *, launcher: int, shm_prefix: str, grace_s: float, temporary: Path | None) -> int:
    """Run `command` until it ends, SIGTERM arrives or the process `launcher` is gone; returns the exit status.

    Where the launcher is gone, its lock on the server's files and the folder `temporary` are removed in its place.
    """
    asked = False

    def ask(_signal: int, _frame: object) -> None:
        nonlocal asked
        asked = True

    signal.signal(signal.SIGTERM, ask)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphaned stubs become ours, not init's
    guardian = os.getpid()

    def die_with_guardian() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:
            os._exit(1)

    # A preexec_fn is safe here: this process has one thread. For the same reason the death signal, which follows
    # the parent's *thread*, follows the process.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_guardian) as server:
        while server.poll() is None and not asked and os.getppid() == launcher:
            time.sleep(_PERIOD_S)
        stopping = server.poll() is None
        if stopping:
            server.terminate()
            try:
                server.wait(grace_s)
            except subprocess.TimeoutExpired:
                server.kill()
        status = server.wait()
    _kill_session()
    remove_regions(shm_prefix)
    if os.getppid() != launcher:
        remove_lock(shm_prefix)
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    if stopping:
        return 0
    return status if status >= 0 else 128 - status


def _kill_session() -> None:
    """SIGKILL to everything in this session but this process, until nothing is left, not even a zombie."""
    end = time.monotonic() + _KILL_TIMEOUT_S
    while time.monotonic() < end:
        for process in session_members(os.getsid(0)):
            if process.pid != os.getpid() and process.alive:
                kill_process(process)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:  # none left
            return
        time.sleep(_PERIOD_S / 5)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="guardian", description=__doc__)
    parser.add_argument("--launcher", type=int, required=True, help="pid of the process that must stay alive")
    parser.add_argument("--shm-prefix", required=True, help="what the server's files in /dev/shm begin with")
    parser.add_argument("--grace-s", type=float, required=True, help="time between SIGTERM and SIGKILL")
    parser.add_argument("--temporary", type=Path, help="folder to remove when the launcher is gone")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args(arguments)
    return guard(
        args.command,
        launcher=args.launcher,
        shm_prefix=args.shm_prefix,
        grace_s=args.grace_s,
        temporary=args.temporary,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
