"""A matrix after compression, still row-major, whatever its values are; and its packed form.

Legend: N rows (outputs), K columns (inputs).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.bf16 import from_bf16, pack_bf16, to_bf16
from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import QuantisedMatrix


@dataclass(frozen=True)
class PrunedMatrix:
    """16-bit values under a mask. weight_NK: float32, every value one that BF16 holds, 0 where pruned."""

    pattern: Pattern
    weight_NK: NDArray[np.float32]

    def dequantised(self) -> NDArray[np.float32]:
        """Float32 [N, K]: the matrix that a kernel multiplies by."""
        return self.weight_NK


CompressedMatrix = QuantisedMatrix | PrunedMatrix


@dataclass(frozen=True)
class Rounded:
    """A compressed matrix and what it was rounded from, which is where training goes on.

    keep_NK:      bool, the mask.
    unrounded_NK: float32, the weights just before rounding, 0 where pruned.
    """

    matrix: CompressedMatrix
    keep_NK: NDArray[np.bool_]
    unrounded_NK: NDArray[np.float32]


def pruned_matrix(weight_NK: NDArray[np.float32], pattern: Pattern) -> PrunedMatrix:
    """Round the weights, which the mask has already pruned, to BF16."""
    return PrunedMatrix(pattern, from_bf16(to_bf16(weight_NK)))


def packed(matrix: CompressedMatrix) -> PackedMatrix:
    """The stream of tiles that kernels read."""
    if isinstance(matrix, QuantisedMatrix):
        return pack(matrix)
    return pack_bf16(matrix.weight_NK, matrix.pattern)
