"""Axes: from values to pixels, and where the ticks are."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Axis(Protocol):
    def at(self, value: float) -> float:
        """The pixel of a value."""

    def ticks(self) -> list[float]:
        """Round values between the ends."""


@dataclass(frozen=True)
class Linear:
    """Values from `low` to `high`, on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float, zero: bool = True) -> "Linear":
        """An axis on which all values have room, from 0 on where `zero`."""
        known = [0.0, *values] if zero else list(values)
        low, high = min(known, default=0.0), max(known, default=1.0)
        room = 0.05 * (high - low) or 1.0
        return cls(low if zero else low - room, high + room, start, end)

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """
        >>> Linear(0, 105, 0, 1).ticks()
        [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        """
        span = self.high - self.low
        step = 10.0 ** math.floor(math.log10(span / 2))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


@dataclass(frozen=True)
class Logarithmic:
    """Values above 0 from `low` to `high`, on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float) -> "Logarithmic":
        """From the round value (1, 2 or 5 times a power of ten) below the least to the one above the most."""
        known = [value for value in values if value > 0] or [1.0]
        # With some room above the most, where labels of levels stand.
        low, high = _round(min(known), down=True), _round(1.2 * max(known), down=False)
        return cls(low, high if high > low else 10 * low, start, end)

    def at(self, value: float) -> float:
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """
        >>> Logarithmic(2, 100, 0, 1).ticks()
        [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        >>> Logarithmic(2, 10_000, 0, 1).ticks()
        [10.0, 100.0, 1000.0, 10000.0]
        """
        decades = math.log10(self.high / self.low)
        factors: Sequence[int] = (1, 2, 5) if decades <= 2.5 else (1,)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found = [factor * 10.0**power for power in powers for factor in factors]
        return [value for value in found if self.low * 0.999 <= value <= self.high * 1.001]


def _round(value: float, down: bool) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    if down:
        return max(step for step in steps if step <= value * 1.0001)
    return min(step for step in steps if step >= value * 0.9999)
