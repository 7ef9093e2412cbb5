"""Cores for the server and for the load generator, apart as far as the machine allows."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass(frozen=True)
class Cores:
    """One core each. A contender is compared by what one core serves, so none has more."""

    server: int
    generator: int
    apart: str  # how far apart they are, for the report

    @classmethod
    def choose(cls) -> "Cores":
        """The first core for the server, and the last one that is not its twin for the generator."""
        available = sorted(os.sched_getaffinity(0))
        server = available[0]
        twins = _siblings(server)
        others = [core for core in available if core not in twins]
        if others:
            return cls(server, others[-1], "two cores")
        if len(available) > 1:
            return cls(server, available[-1], "two threads of one core: the generator slows the server")
        return cls(server, server, "one core for both: rates are too low, for every contender")

    def describe(self) -> str:
        return f"server on core {self.server}, load generator on core {self.generator} ({self.apart})"


def busy_s(core: int) -> float:
    """Time that a core has worked since the machine started, for whomever."""
    for line in _STAT.read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, ticks[:8])
            return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    raise ValueError(f"core {core}: not in {_STAT}")


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Keep this thread to a core, and with it every process and thread that it starts meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _siblings(core: int) -> set[int]:
    """The threads of a core's processor core, itself among them: "0,32" or "0-1" in the kernel's words."""
    try:
        text = Path(_SIBLINGS.format(core)).read_text().strip()
    except OSError:
        return {core}
    ranges = (part.split("-") for part in text.split(","))
    return {core for ends in ranges for core in range(int(ends[0]), int(ends[-1]) + 1)}
