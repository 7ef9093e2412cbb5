"""Processor time and memory of a server's processes, from /proc, while a load runs."""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from triton_ads.loadtest.load import Running, processor_s
from triton_ads.server.processes import PROC, Process, anonymous_bytes, read_process, read_stub, session_members

_LISTENING = "0A"
_SERVER = "tritonserver"
PERIOD_S = 1.0


@dataclass(frozen=True)
class Sample:
    """One look at the server: processor time so far, and memory that was allocated (resident, without mapped files)."""

    at_s: float  # since the sampler started
    cpu_s: dict[str, float]  # by process: the server, or the model that it runs
    memory_bytes: dict[str, int]


def find_server(port: int) -> Running | None:
    """The processes of the Triton that listens on a port of this machine; None where they cannot be seen.

    They cannot in another container or of another user. A proxy that listens in the server's place is not taken for it.
    """
    inodes = _listening(port)
    for entry in PROC.glob("[0-9]*"):
        if not inodes & _sockets(entry):
            continue
        process = read_process(int(entry.name))
        if process is not None and any(_name(p) == _SERVER for p in session_members(process.session)):
            return Running(port, process.session)
    return None


class Sampler:
    """Samples a server every second, from a thread of its own, while used in a `with` block."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="usage", daemon=True)
        self.samples: list[Sample] = []

    def __enter__(self) -> "Sampler":
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def now_s(self) -> float:
        return time.monotonic() - self._start

    def _loop(self) -> None:
        while True:
            self.samples.append(self._look())
            if self._stop.wait(PERIOD_S):
                self.samples.append(self._look())
                return

    def _look(self) -> Sample:
        cpu: defaultdict[str, float] = defaultdict(float)
        memory: defaultdict[str, int] = defaultdict(int)
        for process in session_members(self._server.session):
            name = _label(process)
            cpu[name] += processor_s(process.pid)
            memory[name] += anonymous_bytes(process.pid)
        return Sample(self.now_s(), dict(cpu), dict(memory))


def _label(process: Process) -> str:
    stub = read_stub(process)
    return stub.model if stub is not None else _SERVER if _name(process) == _SERVER else "guardian"


def _name(process: Process) -> str:
    try:
        return (PROC / str(process.pid) / "comm").read_text().strip()
    except OSError:
        return ""


def _listening(port: int) -> set[str]:
    """The inodes of the sockets that listen on a port, as /proc/PID/fd names them."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found


def _sockets(process: Path) -> set[str]:
    found = set()
    try:
        for link in (process / "fd").iterdir():
            try:
                found.add(str(link.readlink()))
            except OSError:
                continue
    except OSError:  # ended, or another user's
        pass
    return found
