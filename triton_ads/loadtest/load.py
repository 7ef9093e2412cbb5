"""Load: closed and open loops, their schedules, and what comes of them.

Closed loop: each of C clients asks, waits, and asks again. Its rate is what the server can do for C clients, but while
the server is slow nobody asks, so its latencies say little of users who come when they like.

Open loop: requests are due at the times of a Poisson process, whatever the server does, and a latency counts from the
time at which the request was due, not from when it could be sent: a stall of the server delays all that were due
during it, and is counted for all ("coordinated omission", Gil Tene).
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from triton_ads.server.processes import PROC, session_members

#: Connections of an open loop, and so requests that a server holds at once. What is due beyond them waits at the
#: client, with its clock running.
CONNECTIONS = 64
KEPT_UP = 0.95  # of what was due in the window: chance makes that more or less than the rate says
WARM_UP_S = 0.5
ROUNDS = 3  # answers a client that a closed loop waits for, however long that takes
_PATIENCE_S = 120  # for what is under way before and after the window


class LoadError(RuntimeError):
    """A load could not be applied: the server closed a connection, or the generator failed."""


@dataclass(frozen=True)
class Load:
    """One measurement: `size` clients of a closed loop, or requests a second of an open one."""

    kind: Literal["closed", "open"]
    size: float
    seconds: float
    seed: int = 0
    #: A request is worth its answer for so long after it was due, and says so where it can; 0: as it was prepared.
    deadline_ms: float = 0.0


@dataclass(frozen=True)
class Running:
    """A server that was started."""

    port: int  # of 127.0.0.1
    session: int  # all of its processes belong to it, see triton_ads/server/processes.py

    def cpu_s(self) -> float:
        """Processor time that the living processes of the server have used so far."""
        return sum(processor_s(process.pid) for process in session_members(self.session))


def processor_s(pid: int) -> float:
    """Processor time that a process has used so far; 0 when there is no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0.0
    utime, stime = text[text.rindex(")") + 2 :].split()[11:13]
    return (int(utime) + int(stime)) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Outcome:
    """What one load gave, without its warm-up."""

    seconds: float
    ms: list[float]  # of every request; one that was given up counts with the time that it had waited
    answered: int  # within the window, whenever asked
    errors: int  # answered with an error, or given up
    first_error: str
    served: int  # answered in all, with the warm-up and what came after the window
    busy: float  # share of its core that the load generator used
    core_ms: float = float("nan")  # processor time of the server for one request, over all that were served
    # Of every request beside its time:
    due_s: list[float] = field(default_factory=list)  # since the window began
    failures: list[str] = field(default_factory=list)  # what was answered instead; "": answered well
    candidates: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # which of the prepared requests; -1: none was sent
    # Over all that were served:
    served_well: int = 0
    served_candidates: int = 0  # of those answered well

    @property
    def rate(self) -> float:
        """Requests answered a second."""
        return self.answered / self.seconds

    @property
    def kept_up(self) -> bool:
        """Whether as much was answered as was asked, or due, but for what is under way at both ends of the window."""
        return self.answered >= KEPT_UP * len(self.ms)

    def percentile(self, q: float) -> float:
        return percentile(self.ms, q)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


def percentile(ms: Sequence[float], q: float) -> float:
    """The smallest value that at least a share `q` of the values do not exceed (nearest rank); NaN of none.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([4.0, 1.0, 3.0, 2.0], 0.51), percentile([7.0], 0.99)
    (2.0, 3.0, 7.0)
    """
    return float(np.quantile(ms, q, method="inverted_cdf")) if len(ms) else float("nan")


def poisson_arrivals(rate: float, seconds: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Times, increasing, in [0, seconds) at which requests are due: gaps are exponential with the mean 1 / rate."""
    expected = rate * seconds
    count = int(expected + 10 * np.sqrt(expected) + 10)  # more than ever fall into the window
    times = np.cumsum(random.exponential(1 / rate, count))
    return times[times < seconds]


def apply_load(load: Load, server: Running, requests: Path) -> Outcome:
    """Run a load from a process of its own, which inherits the cores of this thread.

    Raises:
        LoadError: the server closed a connection, or the generator failed.
    """
    command = [sys.executable, "-m", "triton_ads.loadtest.generator", "--port", str(server.port)]
    command += ["--requests", str(requests), "--load", json.dumps(asdict(load))]
    before = server.cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, timeout=load.seconds + _PATIENCE_S, check=False)
    if done.returncode:
        raise LoadError(f"the load generator failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    outcome = Outcome.from_json(done.stdout)
    return replace(outcome, core_ms=(server.cpu_s() - before) * 1e3 / max(1, outcome.served))
