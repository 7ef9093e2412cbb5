"""`y = x W^T` with a packed W.

Legend: M activation rows, N outputs, K inputs.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.kernels import _native

ActivationBits = Literal[16, 8]


class PackedProduct:
    """A packed matrix, checked once, ready to multiply. Its arrays are used in place (a mapped file stays mapped).

    INT4 matrices multiply activations that are rounded, in blocks of 128 columns with one scale each, to int16
    (`activation_bits=16`, relative error below 1e-4) or int8 (`8`, below 2e-2: less work per weight, but it can
    change an argmax). BF16 matrices multiply float32 activations. A block with a value that is not finite gives NaN.
    """

    def __init__(self, matrix: PackedMatrix) -> None:
        self.rows = matrix.rows
        self.columns = matrix.columns
        self.native = _native.Matrix(
            pattern=matrix.pattern.value,
            values=matrix.values.value,
            rows=matrix.rows,
            columns=matrix.columns,
            groups=matrix.group_size_T,
            row_order=matrix.row_order,
            tiles=matrix.tiles,
        )

    def __call__(
        self,
        x_MK: NDArray[np.float32],
        out_MN: NDArray[np.float32] | None = None,
        activation_bits: ActivationBits = 16,
        threads: int | None = None,
        path: str = "",
    ) -> NDArray[np.float32]:
        """Float32 [M, N]. Any M; the kernels are made for 1 to 32.

        `threads` is an upper bound, by default the cores that this process may use; while other processes of this
        user multiply too, the cores are shared out among them. `path` forces one of `usable_paths()`.

        Raises TypeError for arrays that are not contiguous float32, ValueError for shapes that do not fit, bits,
        threads and paths that do not exist.
        """
        if out_MN is None:
            out_MN = np.empty((x_MK.shape[0], self.rows), np.float32)
        threads = _native.usable_cores() if threads is None else threads
        _native.multiply(self.native, x_MK, out_MN, activation_bits, threads, path)
        return out_MN
