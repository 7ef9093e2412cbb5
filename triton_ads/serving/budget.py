"""A token bucket: so many candidates a second, and at most a second's worth saved up."""

from collections.abc import Callable


class Budget:
    """What the high tier may still spend.

    Args:
        per_second: tokens that flow in, and the most that the bucket holds.
        clock: seconds, monotonic.
    """

    def __init__(self, per_second: float, clock: Callable[[], float]) -> None:
        self._rate, self._clock = per_second, clock
        self._tokens = per_second
        self._filled = clock()

    def left(self) -> float:
        now = self._clock()
        self._tokens = min(self._rate, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        return self._tokens

    def spend(self, tokens: float) -> None:
        """Take tokens; more than are left makes a debt of at most a second, which later requests pay."""
        self._tokens = max(-self._rate, self.left() - tokens)
