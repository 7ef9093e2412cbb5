"""Which rate is tried next: rising until one fails, then between the highest that held and the lowest that failed."""

from dataclasses import dataclass, field

GROWTH = 1.3
REFINEMENTS = 2  # with GROWTH, the highest rate that holds is known to 7 %
DESCENTS = 6  # halvings, where the first rate fails


@dataclass
class RateSearch:
    """
    >>> search = RateSearch(100)
    >>> for holds in (True, False, True, False):
    ...     print(round(search.rate))
    ...     search.record(holds)
    100
    130
    114
    122
    >>> search.rate, round(search.highest)
    (None, 114)

    Args:
        rate: requests a second to begin with.
    """

    rate: float | None  # to be tried next; None: the search is over
    highest: float | None = None  # that held
    _lowest_failed: float | None = field(default=None, repr=False)
    _left: int = field(default=REFINEMENTS, repr=False)
    _descents: int = field(default=DESCENTS, repr=False)

    def record(self, holds: bool) -> None:
        """What came of the rate that was tried.

        Raises:
            RuntimeError: the search is over.
        """
        if self.rate is None:
            raise RuntimeError("the search is over: no rate was to be tried")
        if self.highest is not None and self._lowest_failed is not None:
            self._left -= 1
        if holds:
            self.highest = self.rate
        else:
            self._lowest_failed = self.rate
        self.rate = self._next()

    def _next(self) -> float | None:
        if self._lowest_failed is None:
            assert self.highest is not None
            return self.highest * GROWTH
        if self.highest is None:
            self._descents -= 1
            return self._lowest_failed / 2 if self._descents >= 0 else None
        return (self.highest * self._lowest_failed) ** 0.5 if self._left else None
