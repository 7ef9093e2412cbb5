"""Rounding to INT4 with scales that are fitted, where round to nearest takes the largest magnitude / 7.

A group's scale is the one, of a list of candidates, that leaves the smallest error weighted by how strong the input
channels are: sum over k of H_kk (w_k - scale * code_k)^2. A smaller scale clips the largest weights and rounds all
others more finely. Negative scales give the largest magnitude the code -8 in place of 7.

Legend: N rows (outputs), K columns (inputs), G groups, C columns of a group.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.patterns import SCALE_COLUMNS, Pattern
from triton_ads.compression.quantised import CODE_MAX, CODE_MIN, QuantisedMatrix, pad_columns

#: Scales tried, as shares of the one that clips nothing.
SHARES: Final = (1.0, 0.94, 0.88, 0.82, 0.76, 0.7, 0.64)
#: Weights rounded at once: the intermediate arrays stay in the processor's cache.
_CHUNK: Final = 1 << 18


def codes_of(weight: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest codes, as float32; 0 where the scale is 0."""
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale != 0)
    return np.clip(np.rint(weight * inverse), CODE_MIN, CODE_MAX)


def fitted_scales(weight_NGC: NDArray[np.float32], strength_GC: NDArray[np.float32]) -> NDArray[np.float16]:
    """The best scale of every group among the candidates: float16 [N, G].

    Raises ValueError for weights too large for a float16 scale.
    """
    largest_NG = np.abs(weight_NGC).max(axis=2)
    if largest_NG.max(initial=0.0) > np.finfo(np.float16).max * CODE_MAX:
        raise ValueError(f"weights reach {largest_NG.max():g}; a float16 scale allows {65504 * CODE_MAX}")
    signed_NG = np.where(weight_NGC.max(axis=2) >= largest_NG, largest_NG, -largest_NG)
    best_NG = np.full(largest_NG.shape, np.inf, np.float32)
    scales_NG = np.zeros(largest_NG.shape, np.float16)
    for unclipped_NG in (largest_NG / CODE_MAX, signed_NG / CODE_MIN):
        for share in SHARES:
            scale_NG = (unclipped_NG * np.float32(share)).astype(np.float16)
            step_NG1 = scale_NG.astype(np.float32)[..., None]
            error_NGC = weight_NGC - codes_of(weight_NGC, step_NG1) * step_NG1
            error_NG = np.einsum("ngc,ngc,gc->ng", error_NGC, error_NGC, strength_GC)
            better_NG = error_NG < best_NG
            best_NG = np.where(better_NG, error_NG, best_NG)
            scales_NG = np.where(better_NG, scale_NG, scales_NG)
    return scales_NG


def round_fitted(
    weight_NK: NDArray[np.float32],
    pattern: Pattern,
    group_size_N: NDArray[np.uint16],
    keep_NK: NDArray[np.bool_],
    strength_K: NDArray[np.float32],
) -> QuantisedMatrix:
    """Prune by the mask and round with fitted scales.

    Args:
        strength_K: mean square of every input channel, the diagonal of the Hessian.
    """
    rows, columns = weight_NK.shape
    kept_NK = np.where(keep_NK, weight_NK, np.float32(0))
    codes_NK = np.zeros((rows, columns), np.int8)
    scales_NB = np.zeros((rows, -(-columns // SCALE_COLUMNS)), np.float16)
    for size in np.unique(group_size_N).tolist():
        strength_GC = np.pad(strength_K, (0, -columns % size)).reshape(-1, size)
        of_size = np.flatnonzero(group_size_N == size)
        for some_N in np.array_split(of_size, -(-of_size.size * columns // _CHUNK)):
            weight_NGC = pad_columns(kept_NK[some_N], size).reshape(some_N.size, -1, size)
            scales_NG = fitted_scales(weight_NGC, strength_GC)
            codes_NGC = codes_of(weight_NGC, scales_NG.astype(np.float32)[..., None])
            codes_NK[some_N] = codes_NGC.reshape(some_N.size, -1)[:, :columns]
            scales_NB[some_N] = np.repeat(scales_NG, size // SCALE_COLUMNS, axis=1)[:, : scales_NB.shape[1]]
    return QuantisedMatrix(pattern, codes_NK, scales_NB, group_size_N)
