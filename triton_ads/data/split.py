"""The project's one split: by global time, so that nothing is learned from what had not happened yet."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.download import DataError
from triton_ads.recipe import Data

Part = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class TimeSplit:
    """Positions in the time-ordered log: train is [0, train_end), then validation, then test up to the end."""

    train_end: int
    validation_end: int
    end: int

    def range(self, part: Part) -> tuple[int, int]:
        """First and one past the last position of a part."""
        return {
            "train": (0, self.train_end),
            "validation": (self.train_end, self.validation_end),
            "test": (self.validation_end, self.end),
        }[part]


def split_by_time(time_n: NDArray[np.int64], data: Data) -> TimeSplit:
    """Cut the log, `time_n` never falling, at the recipe's fractions.

    A cut never parts events of the same second: they all go to the later part. So every time of a part is strictly
    greater than every time of the part before.

    Raises:
        DataError: a part would be empty.
    """
    n = len(time_n)
    fractions = (data.train_fraction, data.train_fraction + data.validation_fraction)
    cuts = [int(np.searchsorted(time_n, time_n[min(round(f * n), n - 1)], side="left")) if n else 0 for f in fractions]
    split = TimeSplit(cuts[0], cuts[1], n)
    if not 0 < split.train_end < split.validation_end < split.end:
        raise DataError(f"{n} examples cannot be split by time at {fractions}: a part is empty, cuts at {cuts}")
    return split
