"""Which requests a budget should be spent on: those whose gain per cost is above a threshold that follows the traffic.

The threshold is solved for, not searched: of the requests seen in the last seconds, sorted by value, the best ones
that the budget of these seconds could have paid for are those above it. Then it is corrected a little by what the
budget has saved up or overdrawn, so that errors of the estimate do not add up: the corrected quantity is the integral
of the error, kept within bounds by the bucket, which makes a proportional controller of it without wind-up.

Many requests may have the same value (users of whom nothing is known). Of those at the threshold itself a share is
taken, evenly: the r-th of them when the whole part of r x share grows.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

#: The traffic that the threshold is made for.
WINDOW_SECONDS, LARGEST = 10.0, 2048
#: How often it is made anew.
REFRESH_SECONDS = 0.25
#: A bucket that is full makes the threshold spend this much more than the budget, an empty one this much less.
CORRECTION = 0.25


class Threshold:
    """The least value that is worth its cost now.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ring_n3 = np.zeros((LARGEST, 3))  # seconds, value, cost
        self._noted = 0
        self._begun: float | None = None
        self._refreshed = float("-inf")
        self._taken = 0.0  # of those at the threshold: the part of r x share behind the point
        self.value, self.share = 0.0, 1.0

    def admits(self, value: float, cost: float, per_second: float, fill: float) -> bool:
        """Whether to spend on a request; it is taken note of, and counts in later thresholds.

        Args:
            value: predicted gain per cost; only a positive one is ever admitted.
            cost: what it would take of the budget.
            per_second: the budget.
            fill: what has been saved up of it: 0 nothing, 1 all that can be.
        """
        now = self._clock()
        self._begun = now if self._begun is None else self._begun
        if value > 0:
            self._ring_n3[self._noted % LARGEST] = now, value, cost
            self._noted += 1
        if now - self._refreshed >= REFRESH_SECONDS:
            self._refresh(now, per_second * (1 + CORRECTION * (2 * min(1.0, max(0.0, fill)) - 1)))
        if value <= 0 or value < self.value:
            return False
        if value > self.value:
            return True
        self._taken += self.share
        admitted = self._taken >= 1
        self._taken -= admitted
        return admitted

    def _refresh(self, now: float, per_second: float) -> None:
        """Value and share by which the seen requests would have cost just the budget of their time."""
        self._refreshed = now
        seen_n3 = self._ring_n3[: min(self._noted, LARGEST)]
        begun = max(now - WINDOW_SECONDS, now if self._begun is None else self._begun)
        if self._noted > LARGEST:  # there were more in the window than are kept
            begun = max(begun, float(seen_n3[:, 0].min()))
        seen_n3 = seen_n3[seen_n3[:, 0] >= begun]
        self.value, self.share = solve(seen_n3[:, 1], seen_n3[:, 2], per_second * max(now - begun, REFRESH_SECONDS))


def solve(value_n: NDArray[np.float64], cost_n: NDArray[np.float64], budget: float) -> tuple[float, float]:
    """The threshold and the share to take of those at it, so that the best are taken and cost `budget` together.

    Where the budget pays for all: (0, 1).

    >>> solve(np.array([3.0, 1.0, 2.0, 2.0]), np.array([10.0, 10.0, 10.0, 10.0]), 20.0)
    (2.0, 0.5)
    """
    if cost_n.sum() <= budget:
        return 0.0, 1.0
    order = np.argsort(-value_n, kind="stable")
    last = int(np.searchsorted(np.cumsum(cost_n[order]), budget, side="right"))
    value = float(value_n[order[last]])
    at = value_n == value
    above = float(cost_n[value_n > value].sum())
    return value, max(0.0, min(1.0, (budget - above) / float(cost_n[at].sum())))
