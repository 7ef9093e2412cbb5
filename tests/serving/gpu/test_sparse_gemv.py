"""The torch operator: against the dequantised product on the CPU always, on CUDA where there is a device.

Tolerance on CUDA: codes and activations are exact in float16, sums are float32: 1e-4 covers summation order.
"""

import numpy as np
import pytest
import torch

from triton_ads.compression.bf16 import pack_bf16
from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.packing import dequantised, pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import round_to_nearest
from triton_ads.serving.gpu.sparse_gemv import DeviceMatrix, sparse_gemv

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def packed_matrix(pattern: Pattern, rows: int, columns: int, mixed: bool) -> PackedMatrix:
    rng = np.random.default_rng(rows)
    sizes = rng.choice(pattern.group_sizes, rows).astype(np.uint16) if mixed else 128
    return pack(round_to_nearest(rng.standard_normal((rows, columns)), pattern, sizes))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (33, 70), (100, 2049), (256, 5000)])
@pytest.mark.parametrize("pattern", list(Pattern))
def test_products(pattern: Pattern, rows: int, columns: int, mixed: bool, device: str) -> None:
    packed = packed_matrix(pattern, rows, columns, mixed)
    matrix = DeviceMatrix.of(packed, device)
    for count in (1, 2, 5, 8, 20):
        x_MK = torch.randn((count, columns), generator=torch.Generator().manual_seed(count)).half()
        wanted = x_MK.double().numpy() @ dequantised(packed).astype(np.float64).T
        found = matrix(x_MK.to(device)).cpu().numpy()
        terms = np.abs(x_MK.double().numpy()) @ np.abs(dequantised(packed)).astype(np.float64).T
        assert np.linalg.norm(found - wanted) <= 1e-4 * np.linalg.norm(terms)


@pytest.mark.parametrize("device", DEVICES)
def test_the_operator_is_well_formed(device: str) -> None:
    """Schema, fake implementation and dispatch, as torch itself checks them."""
    matrix = DeviceMatrix.of(packed_matrix(Pattern.TWO_OF_FOUR, 70, 200, True), device)
    arguments = (matrix.tiles, matrix.starts_T, matrix.groups_T, matrix.row_order, matrix.pattern, matrix.rows)
    x_MK = torch.randn((3, 200)).half().to(device)
    torch.library.opcheck(sparse_gemv, (x_MK, *arguments), test_utils=("test_schema", "test_faketensor"))


def test_the_operator_is_exported_as_one_node() -> None:
    matrix = DeviceMatrix.of(packed_matrix(Pattern.ONE_OF_FOUR, 64, 128, False), "cpu")

    class Layer(torch.nn.Module):
        def forward(self, x_MK: torch.Tensor) -> torch.Tensor:
            return matrix(x_MK)

    program = torch.export.export(Layer(), (torch.randn((2, 128)).half(),))
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert "triton_ads.sparse_gemv.default" in targets


def test_what_does_not_fit_is_refused() -> None:
    matrix = DeviceMatrix.of(packed_matrix(Pattern.DENSE, 32, 64, False), "cpu")
    with pytest.raises(ValueError, match="x_MK has 63 columns; the matrix has 64"):
        matrix(torch.zeros((1, 63)).half())
    with pytest.raises(ValueError, match=r"float32.*float16 \[M, K\] is needed"):
        matrix(torch.zeros((1, 64)))
    with pytest.raises(ValueError, match="bf16; the CUDA kernel reads int4"):
        DeviceMatrix.of(pack_bf16(np.ones((1, 4)), Pattern.DENSE), "cpu")
