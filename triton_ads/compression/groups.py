"""Adaptive groups: where rounding hurts the loss most, scales are shared by fewer weights.

A tile of 32 neighbouring output channels has one group size, so nothing needs sorting and no order of rows is stored.
Every tile of every matrix is one item: its options are the group sizes, their costs the bytes of the packed tile, their
losses the increase of the model's loss that its rounding error is estimated to bring, to second order
(`Calibration.loss_increase_N`). Sensitive layers and, within a layer, sensitive channels thus get more groups, others
fewer, at the bytes that a uniform group size would take.

Legend: N rows (outputs), K columns (inputs), T tiles.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.allocate import Option, allocate
from triton_ads.compression.patterns import TILE_ROWS, Pattern, Values, tile_bytes

#: Every tile's group size is kept as a uint16.
_SIZE_BYTES: Final = 2

#: Estimated loss increase of every row when all rows have the given group size: float32 [N].
LossOfSize = Callable[[int], NDArray[np.float32]]


def useful_sizes(pattern: Pattern, columns: int) -> tuple[int, ...]:
    """Group sizes that cost less than every smaller one: the last group of a row is padded to its whole size, so in a
    narrow matrix a large group can cost more than a small one. 576 columns: 32 and 64; 128 would pad to 640."""
    useful: list[int] = []
    for size in pattern.group_sizes:
        cost = tile_bytes(pattern, Values.INT4, columns, size)
        if all(cost < tile_bytes(pattern, Values.INT4, columns, smaller) for smaller in useful):
            useful.append(size)
    return tuple(useful)


def uniform_size(pattern: Pattern, columns: int, size: int) -> int:
    """The largest useful group size up to `size`, or the smallest that the pattern allows."""
    sizes = useful_sizes(pattern, columns)
    return max((one for one in sizes if one <= size), default=sizes[0])


def matrix_bytes(pattern: Pattern, values: Values, shape: tuple[int, int], size: int) -> int:
    """Bytes of a packed matrix [N, K] with one group size (0 for BF16), the list of sizes among them."""
    rows, columns = shape
    return -(-rows // TILE_ROWS) * (tile_bytes(pattern, values, columns, size) + _SIZE_BYTES)


def tile_options(pattern: Pattern, shape: tuple[int, int], loss_of_size: LossOfSize) -> list[list[Option]]:
    """Options of every tile of a matrix, in the order of `useful_sizes`."""
    rows, columns = shape
    starts_T = np.arange(0, rows, TILE_ROWS)
    of_size = [
        (
            tile_bytes(pattern, Values.INT4, columns, size) + _SIZE_BYTES,
            np.add.reduceat(loss_of_size(size), starts_T).tolist(),
        )
        for size in useful_sizes(pattern, columns)
    ]
    return [[Option(cost, losses[tile]) for cost, losses in of_size] for tile in range(starts_T.size)]


def allocate_groups(
    matrices: Mapping[str, tuple[Pattern, tuple[int, int]]], options: Mapping[str, list[list[Option]]], budget: int
) -> dict[str, NDArray[np.uint16]]:
    """The group size of every row of every matrix, uint16 [N] each, equal within a tile.

    Args:
        matrices: pattern and shape [N, K] by name.
        options: of `tile_options`, by name.
        budget: bytes of all tiles together.

    Raises BudgetError where the coarsest groups exceed the budget.
    """
    taken = iter(allocate([tile for name in matrices for tile in options[name]], budget))
    return {
        name: _rows_of_tiles([useful_sizes(pattern, shape[1])[next(taken)] for _ in options[name]], shape[0])
        for name, (pattern, shape) in matrices.items()
    }


def _rows_of_tiles(sizes: Iterable[int], rows: int) -> NDArray[np.uint16]:
    return np.repeat(np.fromiter(sizes, np.uint16), TILE_ROWS)[:rows]
