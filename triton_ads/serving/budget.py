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

    def limit(self, per_second: float) -> None:
        """Let so many flow in from now on; what is held above a second's worth of them is lost."""
        if per_second != self._rate:
            self.left()
            self._rate = per_second
            self._tokens = max(-per_second, min(per_second, self._tokens))

    @property
    def per_second(self) -> float:
        return self._rate

    def fill(self) -> float:
        """What is left as a share of the most that it holds: 1 all of it, below 0 a debt."""
        return self.left() / self._rate if self._rate else 0.0

    def left(self) -> float:
        now = self._clock()
        self._tokens = min(self._rate, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        return self._tokens

    def spend(self, tokens: float) -> None:
        """Take tokens; more than are left makes a debt of at most a second, which later requests pay."""
        self._tokens = max(-self._rate, self.left() - tokens)
