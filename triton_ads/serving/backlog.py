"""What the high tier was given and, by its cost, has not yet done: a queue before one server."""


class Backlog:
    """Time until the high tier is free. Times in microseconds of one clock, costs in milliseconds."""

    def __init__(self) -> None:
        self._free_at_us = 0.0

    def ahead_ms(self, now_us: int) -> float:
        """How long a request that is given to it now would wait."""
        return max(0.0, self._free_at_us - now_us) / 1000

    def add(self, cost_ms: float, now_us: int) -> None:
        """Give it work."""
        self._free_at_us = max(self._free_at_us, float(now_us)) + cost_ms * 1000
