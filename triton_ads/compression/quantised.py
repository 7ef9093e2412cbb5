"""A matrix of INT4 codes and float16 group scales, row-major: what compression produces and packing takes.

Legend: N rows (outputs), K columns (inputs), Q quads of four columns, B blocks of 32 columns.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.patterns import QUAD, SCALE_COLUMNS, Pattern

Scalar = TypeVar("Scalar", bound=np.generic)

CODE_MIN, CODE_MAX = -8, 7


@dataclass(frozen=True)
class QuantisedMatrix:
    """Weight = code * scale of its group. A row's groups all have the row's group size; rows may differ.

    codes_NK:     int8 in [-8, 7], 0 where pruned.
    scales_NB:    float16, stated for every block of 32 columns; equal within a group.
    group_size_N: uint16, one of 32, 64, 128, 256 (1:4: from 64).
    """

    pattern: Pattern
    codes_NK: NDArray[np.int8]
    scales_NB: NDArray[np.float16]
    group_size_N: NDArray[np.uint16]

    def __post_init__(self) -> None:
        rows, columns = self.codes_NK.shape
        blocks = -(-columns // SCALE_COLUMNS)
        if rows < 1 or columns < 1:
            raise ValueError(f"codes_NK is {rows} x {columns}; a matrix has at least one row and one column")
        if self.codes_NK.dtype != np.int8 or self.scales_NB.dtype != np.float16:
            raise ValueError(
                f"codes are {self.codes_NK.dtype}, scales {self.scales_NB.dtype}; int8 and float16 allowed"
            )
        if self.scales_NB.shape != (rows, blocks):
            raise ValueError(f"scales_NB is {self.scales_NB.shape}; {rows} x {columns} codes need {(rows, blocks)}")
        if self.group_size_N.shape != (rows,):
            raise ValueError(f"group_size_N is {self.group_size_N.shape}; one size for each of {rows} rows is needed")
        low, high = int(self.codes_NK.min()), int(self.codes_NK.max())
        if low < CODE_MIN or high > CODE_MAX:
            raise ValueError(f"codes span {low} to {high}; {CODE_MIN} to {CODE_MAX} allowed")
        strange = sorted(set(np.unique(self.group_size_N).tolist()) - set(self.pattern.group_sizes))
        if strange:
            raise ValueError(f"group sizes {strange}; {self.pattern} allows {self.pattern.group_sizes}")
        if not np.isfinite(self.scales_NB).all():
            raise ValueError("scales_NB holds a value that is not finite")
        self._check_scales_within_groups()
        self._check_kept()

    def _check_scales_within_groups(self) -> None:
        first_of_group_NB = group_starts(self.group_size_N, self.scales_NB.shape[1])
        if not np.array_equal(self.scales_NB, np.take_along_axis(self.scales_NB, first_of_group_NB, axis=1)):
            raise ValueError("scales_NB differs within a group; a group has one scale")

    def _check_kept(self) -> None:
        kept_NQ = np.count_nonzero(pad_columns(self.codes_NK, QUAD).reshape(self.rows, -1, QUAD), axis=2)
        if kept_NQ.max() > self.pattern.kept:
            row, quad = np.argwhere(kept_NQ > self.pattern.kept)[0]
            raise ValueError(
                f"row {row}, columns {quad * QUAD} to {quad * QUAD + QUAD - 1} hold {kept_NQ[row, quad]} values; "
                f"{self.pattern} keeps {self.pattern.kept}"
            )

    @property
    def rows(self) -> int:
        return int(self.codes_NK.shape[0])

    @property
    def columns(self) -> int:
        return int(self.codes_NK.shape[1])

    def dequantised(self) -> NDArray[np.float32]:
        """Float32 [N, K]: the matrix that a kernel multiplies by."""
        scales_NK = np.repeat(self.scales_NB.astype(np.float32), SCALE_COLUMNS, axis=1)[:, : self.columns]
        return self.codes_NK * scales_NK


def group_starts(group_size_N: NDArray[np.uint16], blocks: int) -> NDArray[np.int64]:
    """For every row and block of 32 columns, the first block of its group: int64 [N, B]."""
    block_B = np.arange(blocks)
    per_group_N1 = (group_size_N.astype(np.int64) // SCALE_COLUMNS)[:, None]
    return block_B // per_group_N1 * per_group_N1


def pad_columns(matrix_NK: NDArray[Scalar], multiple: int) -> NDArray[Scalar]:
    """The matrix with zero columns added up to a multiple."""
    return np.pad(matrix_NK, ((0, 0), (0, -matrix_NK.shape[1] % multiple)))


def largest_of_four(score_NK: NDArray[np.floating], pattern: Pattern) -> NDArray[np.bool_]:
    """The mask that keeps the largest scores of each four columns; of equal scores, the leftmost. bool [N, K]."""
    rows, columns = score_NK.shape
    # Columns beyond the matrix score below every real one.
    score_NQ4 = np.pad(score_NK, ((0, 0), (0, -columns % QUAD)), constant_values=-np.inf).reshape(rows, -1, QUAD)
    order_NQ4 = np.argsort(-score_NQ4, axis=2, kind="stable")
    keep_NQ4 = np.zeros(score_NQ4.shape, np.bool_)
    np.put_along_axis(keep_NQ4, order_NQ4[..., : pattern.kept], True, axis=2)
    return keep_NQ4.reshape(rows, -1)[:, :columns]


def round_to_nearest(
    weight_NK: NDArray[np.floating],
    pattern: Pattern,
    group_size: int | NDArray[np.uint16] = 128,
    keep_NK: NDArray[np.bool_] | None = None,
) -> QuantisedMatrix:
    """The plain baseline: prune by `keep_NK` (by magnitude where it is None), then round to nearest in each group.

    The scale of a group is its largest magnitude / 7, rounded to float16 before the codes are found.
    """
    rows, columns = weight_NK.shape
    weight_NK = weight_NK.astype(np.float32)
    if not np.isfinite(weight_NK).all():
        raise ValueError("weight_NK holds a value that is not finite")
    if keep_NK is None:
        keep_NK = largest_of_four(np.abs(weight_NK), pattern)
    weight_NK = np.where(keep_NK, weight_NK, np.float32(0))
    group_size_N = np.broadcast_to(np.asarray(group_size, np.uint16), (rows,)).copy()
    blocks_NBC = pad_columns(weight_NK, SCALE_COLUMNS).reshape(rows, -1, SCALE_COLUMNS)
    largest_NB = np.abs(blocks_NBC).max(axis=2)
    for size in np.unique(group_size_N).tolist():
        of_size = group_size_N == size
        if size % SCALE_COLUMNS:
            raise ValueError(f"group size {size}; {pattern} allows {pattern.group_sizes}")
        padded_NGB = pad_columns(largest_NB[of_size], size // SCALE_COLUMNS).reshape(of_size.sum(), -1, size // 32)
        largest_NG = padded_NGB.max(axis=2)
        largest_NB[of_size] = np.repeat(largest_NG, size // SCALE_COLUMNS, axis=1)[:, : largest_NB.shape[1]]
    with np.errstate(over="ignore"):
        scales_NB = (largest_NB / CODE_MAX).astype(np.float16)
    if not np.isfinite(scales_NB).all():
        raise ValueError(f"weights reach {largest_NB.max():g}; a float16 scale allows {65504 * CODE_MAX}")
    steps_NB = scales_NB.astype(np.float32)
    inverse_NB = np.divide(1.0, steps_NB, out=np.zeros_like(steps_NB), where=steps_NB > 0)
    codes_NBC = np.clip(np.rint(blocks_NBC * inverse_NB[:, :, None]), CODE_MIN, CODE_MAX).astype(np.int8)
    return QuantisedMatrix(pattern, codes_NBC.reshape(rows, -1)[:, :columns].copy(), scales_NB, group_size_N)
