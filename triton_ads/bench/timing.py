"""Contenders timed in turns: what the machine does meanwhile meets all of them alike, and ratios stay fair."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Timings:
    """Milliseconds of every contender in every round."""

    ms: dict[str, NDArray[np.float64]]

    @property
    def rounds(self) -> int:
        return len(next(iter(self.ms.values())))

    def median(self, contender: str) -> float:
        return float(np.median(self.ms[contender]))

    def quantile(self, contender: str, q: float) -> float:
        return float(np.quantile(self.ms[contender], q))

    def ratio(self, slow: str, fast: str) -> float:
        """Median over the rounds of `slow / fast`, each ratio taken within one round."""
        return float(np.median(self.ms[slow] / self.ms[fast]))


def interleave(
    contenders: dict[str, Callable[[], object]],
    rounds: int,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timings:
    """Run every contender once a round, in an order that rotates.

    Args:
        clock: seconds; `time.process_time` for work of one thread, which then does not see what else the machine does.
    """
    names = list(contenders)
    for _ in range(warmup):
        for name in names:
            contenders[name]()
    ms = {name: np.zeros(rounds) for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = clock()
            contenders[name]()
            ms[name][turn] = (clock() - start) * 1e3
    return Timings(ms)
