"""How much of the budget may be spent: all of it in calm, less where answers come too late.

Additive increase, multiplicative decrease (Chiu and Jain 1989), as in congestion control, for the same reason: the
load that the machine can bear is not known, only whether it bears the present one. At most one step a period, so that
the same trouble, reported many times, is not answered many times.
"""

from collections.abc import Callable

#: One step a period, and the share of requests too late in a period that is trouble.
PERIOD_SECONDS, TROUBLE = 0.25, 0.01
#: What a step in trouble multiplies, and one in calm adds: half in 0.5 s of trouble, all of it back in 5 s of calm.
DECREASE, INCREASE = 0.7, 0.05
#: Never less: what the high tier costs in trouble, and how soon its calm is noticed.
LOWEST = 0.05


class LoadLevel:
    """The share of the budget, from LOWEST to 1.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._level, self._stepped = 1.0, clock()
        self._requests, self._late, self._crowded = 0.0, 0.0, False

    def saw(self, requests: float = 0, late: float = 0, *, crowded: bool = False) -> None:
        """Take note of requests, of those too late, and of a queue in which the next would be too late."""
        self._requests += requests
        self._late += late
        self._crowded |= crowded

    def level(self) -> float:
        now = self._clock()
        if now - self._stepped >= PERIOD_SECONDS:
            if self._crowded or self._late > TROUBLE * self._requests:
                self._level = max(LOWEST, self._level * DECREASE)
            else:
                periods = int((now - self._stepped) / PERIOD_SECONDS)
                self._level = min(1.0, self._level + INCREASE * periods)
            self._stepped = now
            self._requests, self._late, self._crowded = 0.0, 0.0, False
        return self._level
