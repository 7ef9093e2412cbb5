"""How the time of a load test is spent."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from triton_ads.loadtest.load import WARM_UP_S

SHORTEST_S = 20.0
LONGEST_S = 3600.0
STEP_REQUESTS = 100


class DurationError(ValueError):
    """A load test cannot be so short or so long."""


@dataclass(frozen=True)
class Schedule:
    """Seconds of each phase: a warm-up, rising rates, and the rated load for what is left."""

    total_s: float
    warm_up_s: float
    step_s: float
    rising_s: float  # at most; what the search knows then is taken
    chunk_s: float  # of the load that is held; after each it is judged, and lowered where it does not hold

    @classmethod
    def of(cls, seconds: float) -> Self:
        """
        >>> Schedule.of(180)
        Schedule(total_s=180, warm_up_s=5.0, step_s=5.0, rising_s=108.0, chunk_s=20.0)

        Raises:
            DurationError: too short for percentiles that mean something, or so long that it is a mistake.
        """
        if not SHORTEST_S <= seconds <= LONGEST_S:
            raise DurationError(
                f"duration: {seconds:g} s found, {SHORTEST_S:g} to {LONGEST_S:g} s allowed: rates rise, and the "
                "highest that holds is held"
            )
        step = max(1.5, min(5.0, seconds / 36))
        return cls(seconds, step, step, 0.6 * seconds, min(20.0, seconds / 9))

    def step_of(self, rate: float) -> float:
        """Length of a step; longer at low rates, where a percentile of few requests is chance.

        >>> [Schedule.of(180).step_of(rate) for rate in (100, 10, 1)]
        [5.0, 10.0, 20.0]
        """
        return _stretched(self.step_s, rate)

    def chunk_of(self, rate: float) -> float:
        """The same of a chunk."""
        return _stretched(self.chunk_s, rate)

    def left_for(self, rate: float, rising: Iterable[float], failed: Iterable[float] = ()) -> float:
        """About how many seconds `rate` is held, after steps of these rates, and parts of others that failed.

        >>> Schedule.of(180).left_for(80, rising=[50, 65, 85, 110, 110, 97, 97, 90])
        120.0
        """
        steps = sum(self.step_of(step) + WARM_UP_S for step in rising)
        parts = sum(self.chunk_of(part) + WARM_UP_S for part in failed)
        left = self.total_s - self.warm_up_s - min(self.rising_s, steps) - parts
        chunk = self.chunk_of(rate)
        return chunk * max(1, int(left / (chunk + WARM_UP_S)))


def _stretched(seconds: float, rate: float) -> float:
    return min(4 * seconds, max(seconds, STEP_REQUESTS / rate))
