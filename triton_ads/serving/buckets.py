"""Buckets: the batch sizes for which buffers stand ready, counted in tiles of the recipe's size."""

from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

# C tiles, P candidates in a tile, R = C x P rows, F id columns, D dense columns, K labels


class Miss(StrEnum):
    """Why a group of requests did not fit one bucket."""

    OVER_LARGEST = "over_largest"  # it was run in several goes


class Bucket:
    """Buffers of `tiles` tiles of `size` candidates, or more tiles of fewer, filled anew by each run."""

    def __init__(self, tiles: int, size: int, id_columns: int, dense_columns: int, labels: int) -> None:
        self.tiles = tiles
        rows = tiles * size
        self.item_ids_RF = np.zeros((rows, id_columns), np.int64)
        self.item_dense_RD = np.zeros((rows, dense_columns), np.float32)
        self.user_of_tile_C = np.zeros(rows, np.int64)  # tiles of one candidate at the least
        self.scores_RK = np.zeros((rows, labels), np.float32)

    def inputs(self, tiles: int, size: int) -> dict[str, NDArray[Any]]:
        """Views of the first `tiles` tiles, when a tile has `size` candidates, by the names of docs/wire.md."""
        return {
            "item_ids": self.item_ids_RF[: tiles * size].reshape(tiles, size, -1),
            "item_dense": self.item_dense_RD[: tiles * size].reshape(tiles, size, self.item_dense_RD.shape[1]),
            "user_of_tile": self.user_of_tile_C[:tiles],
        }

    def output(self, tiles: int, size: int) -> NDArray[np.float32]:
        """The view that `scores` goes to."""
        return self.scores_RK[: tiles * size].reshape(tiles, size, -1)


def smallest(sizes: Sequence[int], needed: int) -> int:
    """The position of the smallest of the increasing `sizes` that holds `needed`.

    Raises:
        ValueError: none does.
    """
    if needed > sizes[-1]:
        raise ValueError(f"{needed} needed, the largest of {list(sizes)} is too small")
    return bisect_left(sizes, needed)
