"""A matrix as the kernels read it: a stream of tiles, and the rules that make such a stream valid.

Legend: N rows, T tiles of 32 rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.patterns import TILE_ROWS, Pattern, Values, tile_bytes

#: Rows and columns of the largest matrix; every size computed from them fits 64 bits with room to spare.
SIDE_MAX = 1 << 24


class PackedMatrixError(ValueError):
    """Parts that are no valid packed matrix; the message names the part, the value found and what is allowed."""


@dataclass(frozen=True)
class PackedMatrix:
    """One weight matrix of `rows` outputs and `columns` inputs.

    tiles:        uint8, the tiles one after the other (docs/packed_format.md draws one).
    group_size_T: uint16, the group size of each tile; 0 for BF16 values.
    row_order:    int32 [32 T], the matrix row in each row of the tiles, -1 in rows of padding; None for
                  0, 1, 2, ... Rows of different group sizes are sorted into different tiles.
    """

    pattern: Pattern
    values: Values
    rows: int
    columns: int
    group_size_T: NDArray[np.uint16]
    row_order: NDArray[np.int32] | None
    tiles: NDArray[np.uint8]

    def __post_init__(self) -> None:
        for name, side in (("rows", self.rows), ("columns", self.columns)):
            if not 1 <= side <= SIDE_MAX:
                raise PackedMatrixError(f"{name} is {side}; 1 to {SIDE_MAX} allowed")
        self._check_group_sizes()
        self._check_row_order()
        sizes, counts = np.unique(self.group_size_T, return_counts=True)
        needed = sum(
            count * tile_bytes(self.pattern, self.values, self.columns, size)
            for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)
        )
        if self.tiles.dtype != np.uint8 or self.tiles.ndim != 1 or self.tiles.size != needed:
            raise PackedMatrixError(
                f"tiles are {self.tiles.dtype} {self.tiles.shape}; "
                f"this {self.pattern} {self.values} matrix needs {needed} bytes of uint8"
            )

    def _check_group_sizes(self) -> None:
        tiles = self.group_size_T.size
        if self.group_size_T.dtype != np.uint16 or self.group_size_T.ndim != 1:
            raise PackedMatrixError(f"group_size_T is {self.group_size_T.dtype} {self.group_size_T.shape}; uint16 [T]")
        least = -(-self.rows // TILE_ROWS)
        # Without an order the tiles hold exactly the rows; with one, each group size may end in padding rows.
        most = least if self.row_order is None else least + len(self.pattern.group_sizes)
        if not least <= tiles <= most:
            raise PackedMatrixError(f"group_size_T counts {tiles} tiles; {self.rows} rows need {least} to {most}")
        allowed = self.pattern.group_sizes if self.values is Values.INT4 else (0,)
        strange = sorted(set(np.unique(self.group_size_T).tolist()) - set(allowed))
        if strange:
            raise PackedMatrixError(f"group sizes {strange}; {self.pattern} {self.values} allows {allowed}")

    def _check_row_order(self) -> None:
        if self.row_order is None:
            return
        if self.row_order.dtype != np.int32 or self.row_order.shape != (self.group_size_T.size * TILE_ROWS,):
            raise PackedMatrixError(
                f"row_order is {self.row_order.dtype} {self.row_order.shape}; int32 of 32 x {self.group_size_T.size}"
            )
        real = np.sort(self.row_order[self.row_order != -1])
        if not np.array_equal(real, np.arange(self.rows)):
            raise PackedMatrixError(f"row_order does not hold each of {self.rows} rows once, and -1 elsewhere")

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        order = 0 if self.row_order is None else self.row_order.nbytes
        return int(self.tiles.nbytes + self.group_size_T.nbytes + order)

    def slot_rows(self) -> NDArray[np.int32]:
        """The matrix row in each row of the tiles, -1 in padding: int32 [32 T]."""
        if self.row_order is not None:
            return self.row_order
        natural = np.arange(self.group_size_T.size * TILE_ROWS, dtype=np.int32)
        return np.where(natural < self.rows, natural, np.int32(-1))
