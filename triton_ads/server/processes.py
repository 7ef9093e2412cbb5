"""What /proc tells of a server's processes: the stubs and the model each one runs, who is dead, memory used.

Everything that belongs to one server shares one *session* (setsid by the guardian), so that it can be found by
number and never by name.
"""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SHARED_MEMORY = Path("/dev/shm")
_STUB = "triton_python_backend_stub"


@dataclass(frozen=True)
class Process:
    """One line of the process table."""

    pid: int
    state: str  # one letter of proc(5): R, S, D, T, Z, ...
    parent: int
    session: int
    started: int  # clock ticks since boot: with the pid, it names a process for ever

    @property
    def alive(self) -> bool:
        return self.state not in "ZXx"


@dataclass(frozen=True)
class Stub:
    """A process that runs one instance of one Python model."""

    pid: int
    started: int
    model: str
    source: Path  # the model.py that it runs
    region: str  # its file in /dev/shm

    def process(self) -> Process | None:
        """Its line of the process table; None when it is gone, even if another process has its pid."""
        now = read_process(self.pid)
        return now if now is not None and now.started == self.started else None

    def alive(self) -> bool:
        now = self.process()
        return now is not None and now.alive


def read_process(pid: int) -> Process | None:
    """None when there is no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name, second and in parentheses, may itself hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return Process(pid, fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def session_members(session: int) -> list[Process]:
    """Every process of a session, zombies included, its leader too."""
    found = (read_process(int(entry.name)) for entry in PROC.glob("[0-9]*"))
    return [process for process in found if process is not None and process.session == session]


def read_stub(process: Process) -> Stub | None:
    """The stub that a process is, or None. A zombie's command line is empty: it must have been read before."""
    try:
        arguments = (PROC / str(process.pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    # triton_python_backend_stub REPOSITORY/MODEL/VERSION/model.py SHM_REGION ...
    if len(arguments) < 3 or Path(arguments[0]).name != _STUB:
        return None
    source = Path(arguments[1])
    return Stub(process.pid, process.started, source.parent.parent.name, source, arguments[2])


def kill_process(process: Process | Stub) -> None:
    """SIGKILL, unless the pid has meanwhile gone to another process."""
    now = read_process(process.pid)
    if now is not None and now.started == process.started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def anonymous_bytes(pid: int) -> int:
    """Resident memory that a process allocated, without mapped files; 0 when there is no such process."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def open_files(pid: int) -> int:
    """File descriptors of a process, sockets and pipes included; 0 when there is no such process."""
    try:
        return len(list((PROC / str(pid) / "fd").iterdir()))
    except OSError:
        return 0


def shared_regions(prefix: str) -> dict[str, int]:
    """Name -> allocated bytes of the files in /dev/shm that begin with `prefix`."""
    regions = {}
    for path in SHARED_MEMORY.glob(prefix + "*"):
        try:
            regions[path.name] = path.stat().st_blocks * 512
        except OSError:
            continue
    return regions


def remove_regions(prefix: str) -> list[str]:
    """Unlink the files of /dev/shm that begin with `prefix`; returns their names."""
    removed = sorted(shared_regions(prefix))
    for name in removed:
        (SHARED_MEMORY / name).unlink(missing_ok=True)
    return removed
