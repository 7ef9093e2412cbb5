"""SparseGemv as a torch operator: `torch.ops.triton_ads.sparse_gemv`, on CUDA and on the CPU, and as a fake tensor.

The CUDA kernel (kernels/cuda/sparse_gemv.cu) is a library of its own with one C function, so it is built against no
version of torch. It reads the packed bytes of the CPU kernels; the CPU implementation of the operator is those.

Legend: M activation rows, N outputs, K inputs, T tiles of 32 rows.
"""

import ctypes
import functools
import importlib.resources
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.patterns import Pattern, Values, tile_bytes
from triton_ads.kernels import PackedProduct

LIBRARY = "libtriton_ads_cuda.so"
_PATTERNS = tuple(Pattern)


@functools.cache
def cuda_library(path: Path | None = None) -> ctypes.CDLL:
    """The compiled kernel; by default the one that was installed with the package.

    Raises FileNotFoundError where the package was built without it.
    """
    path = path or Path(str(importlib.resources.files("triton_ads.kernels") / LIBRARY))
    if not path.exists():
        raise FileNotFoundError(f"{path}: build the package with the CMake option TRITON_ADS_CUDA=ON")
    library = ctypes.CDLL(str(path))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.triton_ads_sparse_gemv.argtypes = [number, *[pointer] * 6, *[number] * 4, pointer]
    library.triton_ads_sparse_gemv.restype = number
    return library


@torch.library.custom_op("triton_ads::sparse_gemv", mutates_args=())
def sparse_gemv(
    x_MK: Tensor,
    tiles: Tensor,
    starts_T: Tensor,
    groups_T: Tensor,
    row_order: Tensor | None,
    pattern: int,
    rows: int,
) -> Tensor:
    """Float32 [M, N] = x W^T. x float16 [M, K]; tiles uint8; starts_T int64, groups_T int32; row_order int32 [32 T].

    `pattern` is 0 dense, 1 2:4, 2 1:4. Take the arguments from a `DeviceMatrix`, which has been checked.
    """
    raise NotImplementedError(f"sparse_gemv runs on cuda and cpu, x_MK is on {x_MK.device}")


@sparse_gemv.register_fake
def _(
    x_MK: Tensor,
    tiles: Tensor,
    starts_T: Tensor,
    groups_T: Tensor,
    row_order: Tensor | None,
    pattern: int,
    rows: int,
) -> Tensor:
    return x_MK.new_empty((x_MK.shape[0], rows), dtype=torch.float32)


@sparse_gemv.register_kernel("cuda")
def _(
    x_MK: Tensor,
    tiles: Tensor,
    starts_T: Tensor,
    groups_T: Tensor,
    row_order: Tensor | None,
    pattern: int,
    rows: int,
) -> Tensor:
    _check_x(x_MK)
    x_MK = x_MK.contiguous()
    y_MN = torch.empty((x_MK.shape[0], rows), dtype=torch.float32, device=x_MK.device)
    with torch.cuda.device(x_MK.device):
        error = cuda_library().triton_ads_sparse_gemv(
            pattern,
            x_MK.data_ptr(),
            tiles.data_ptr(),
            starts_T.data_ptr(),
            groups_T.data_ptr(),
            None if row_order is None else row_order.data_ptr(),
            y_MN.data_ptr(),
            x_MK.shape[0],
            rows,
            x_MK.shape[1],
            groups_T.shape[0],
            torch.cuda.current_stream().cuda_stream,
        )
    if error:
        raise RuntimeError(f"sparse_gemv: CUDA error {error}")
    return y_MN


@sparse_gemv.register_kernel("cpu")
def _(
    x_MK: Tensor,
    tiles: Tensor,
    starts_T: Tensor,
    groups_T: Tensor,
    row_order: Tensor | None,
    pattern: int,
    rows: int,
) -> Tensor:
    _check_x(x_MK)
    matrix = PackedMatrix(
        _PATTERNS[pattern],
        Values.INT4,
        rows,
        x_MK.shape[1],
        groups_T.numpy().astype(np.uint16),
        None if row_order is None else row_order.numpy(),
        tiles.numpy(),
    )
    return torch.from_numpy(PackedProduct(matrix)(x_MK.float().contiguous().numpy()))


def _check_x(x_MK: Tensor) -> None:
    if x_MK.dtype != torch.float16 or x_MK.dim() != 2:
        raise ValueError(f"x_MK is {x_MK.dtype} with {x_MK.dim()} dimensions; float16 [M, K] is needed")


@dataclass(frozen=True)
class DeviceMatrix:
    """A packed INT4 matrix on a device, ready to multiply."""

    tiles: Tensor
    starts_T: Tensor
    groups_T: Tensor
    row_order: Tensor | None
    pattern: int
    rows: int
    columns: int

    @classmethod
    def of(cls, matrix: PackedMatrix, device: str | torch.device) -> "DeviceMatrix":
        """Copies a checked matrix. Raises ValueError for BF16 values, which have no CUDA kernel."""
        if matrix.values is not Values.INT4:
            raise ValueError(f"values are {matrix.values}; the CUDA kernel reads int4")
        sizes = [
            tile_bytes(matrix.pattern, matrix.values, matrix.columns, group) for group in matrix.group_size_T.tolist()
        ]
        starts_T = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        order = None if matrix.row_order is None else torch.from_numpy(matrix.row_order.copy()).to(device)
        return cls(
            torch.from_numpy(np.array(matrix.tiles)).to(device),
            torch.from_numpy(starts_T).to(device),
            torch.from_numpy(matrix.group_size_T.astype(np.int32)).to(device),
            order,
            _PATTERNS.index(matrix.pattern),
            matrix.rows,
            matrix.columns,
        )

    def __call__(self, x_MK: Tensor) -> Tensor:
        """Float32 [M, N] of float16 [M, K] on the same device."""
        if x_MK.shape[-1] != self.columns:
            raise ValueError(f"x_MK has {x_MK.shape[-1]} columns; the matrix has {self.columns}")
        return sparse_gemv(x_MK, self.tiles, self.starts_T, self.groups_T, self.row_order, self.pattern, self.rows)
