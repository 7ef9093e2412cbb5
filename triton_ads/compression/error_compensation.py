"""Pruning and rounding column by column; the error of each column is made up for by the columns to its right.

The update is that of GPTQ (Frantar et al. 2023) and SparseGPT (Frantar and Alistarh 2023), with the mask given: for the
error e of a column, the weights not yet rounded move by -e / U_kk * U_k, where U is the upper Cholesky factor of the
inverse Hessian, which is the least-squares answer to the output error. Blocks of columns are updated at once for speed.

Legend: N rows (outputs), K columns (inputs), B columns of a block (of scales: blocks of 32 columns), C columns of a
group.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.patterns import GROUP_SIZES, SCALE_COLUMNS, Pattern
from triton_ads.compression.quantised import QuantisedMatrix
from triton_ads.compression.rounding import codes_of, fitted_scales

#: Added to the Hessian's diagonal, as a share of its mean, so that it can be inverted: GPTQ's own.
DAMPING: Final = 0.01
#: A block holds whole groups, so that a group's scale is fitted to weights that are up to date.
_BLOCK: Final = max(GROUP_SIZES)


def inverse_factor(hessian_KK: NDArray[np.float32]) -> NDArray[np.float32]:
    """Upper triangular U with U^T U = (H + damping)^-1, float32 [K, K]."""
    hessian_KK = hessian_KK.astype(np.float64)
    mean = np.diagonal(hessian_KK).mean()
    damped_KK = hessian_KK + np.eye(len(hessian_KK)) * (DAMPING * mean if mean > 0 else 1.0)
    # The factor of the inverse without the inverse: reversed in both axes, the Cholesky factor of H is upper.
    lower_KK = np.linalg.cholesky(damped_KK[::-1, ::-1])[::-1, ::-1]
    return np.linalg.inv(lower_KK).astype(np.float32)


def _sweep(
    weight_NK: NDArray[np.float32], hessian_KK: NDArray[np.float32], fixed: Callable[[int, NDArray[np.float32]], Any]
) -> NDArray[np.float32]:
    """Fix the columns from the left to the right, each at what `fixed` answers: float32 [N, K].

    Args:
        fixed: (column, weights [K, N] as they have become) -> float32 [N].
    """
    left_KN = np.ascontiguousarray(weight_NK.T)
    factor_KK = inverse_factor(hessian_KK)
    columns = len(left_KN)
    for start in range(0, columns, _BLOCK):
        end = min(start + _BLOCK, columns)
        error_BN = np.zeros((end - start, left_KN.shape[1]), np.float32)
        for column in range(start, end):
            fixed_N = fixed(column, left_KN)
            error_N = (left_KN[column] - fixed_N) / factor_KK[column, column]
            left_KN[column] = fixed_N
            left_KN[column + 1 : end] -= factor_KK[column, column + 1 : end, None] * error_N
            error_BN[column - start] = error_N
        left_KN[end:] -= factor_KK[start:end, end:].T @ error_BN
    return left_KN.T


def compensated(
    weight_NK: NDArray[np.float32],
    pattern: Pattern,
    group_size_N: NDArray[np.uint16],
    keep_NK: NDArray[np.bool_],
    hessian_KK: NDArray[np.float32],
) -> tuple[QuantisedMatrix, NDArray[np.float32]]:
    """INT4 codes under the mask, with the output error made up for as far as later columns can; and the weights that
    were rounded to them, float32 [N, K].

    A group's scale is fitted when its first column is reached, to the weights as they have become.
    """
    rows, columns = weight_NK.shape
    strength_K = np.ascontiguousarray(np.diagonal(hessian_KK))
    keep_KN = np.ascontiguousarray(keep_NK.T)
    codes_KN = np.zeros((columns, rows), np.int8)
    unrounded_KN = np.zeros((columns, rows), np.float32)
    scales_BN = np.zeros((-(-columns // SCALE_COLUMNS), rows), np.float16)
    rows_of_size = {size: np.flatnonzero(group_size_N == size) for size in np.unique(group_size_N).tolist()}

    def rounded(column: int, left_KN: NDArray[np.float32]) -> NDArray[np.float32]:
        block = column // SCALE_COLUMNS
        for size, some_N in rows_of_size.items():
            if column % size == 0:
                group = slice(column, column + size)
                kept_CN = left_KN[group, some_N] * keep_KN[group, some_N]
                scales_N1 = fitted_scales(np.ascontiguousarray(kept_CN.T)[:, None], strength_K[None, group])
                scales_BN[block : block + size // SCALE_COLUMNS, some_N] = scales_N1[:, 0]
        scale_N = scales_BN[block].astype(np.float32)
        unrounded_KN[column] = left_KN[column] * keep_KN[column]
        codes_KN[column] = codes_of(unrounded_KN[column], scale_N)
        return codes_KN[column] * scale_N

    _sweep(weight_NK, hessian_KK, rounded)
    matrix = QuantisedMatrix(pattern, np.ascontiguousarray(codes_KN.T), np.ascontiguousarray(scales_BN.T), group_size_N)
    return matrix, np.ascontiguousarray(unrounded_KN.T)


def compensated_pruning(
    weight_NK: NDArray[np.float32], keep_NK: NDArray[np.bool_], hessian_KK: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The same without rounding: float32 [N, K], 0 where the mask prunes."""
    keep_KN = np.ascontiguousarray(keep_NK.T)
    return np.ascontiguousarray(
        _sweep(weight_NK, hessian_KK, lambda column, left_KN: left_KN[column] * keep_KN[column])
    )
