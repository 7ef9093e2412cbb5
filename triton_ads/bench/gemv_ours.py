"""Our side of `triton-ads bench gemv`: every pattern, arithmetic and value kind of the packed kernels."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.gemv_contender import BURST_BYTES, COLD_BYTES, PROBE, Case, Contender, copies_of, relative_error
from triton_ads.compression.bf16 import pack_bf16
from triton_ads.compression.lanes import aligned_bytes
from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.packing import dequantised, pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import largest_of_four, round_to_nearest
from triton_ads.kernels import PackedProduct, _native, usable_paths

GROUP = 128


def contenders(case: Case, weight_NK: NDArray[np.float32], x_MK: NDArray[np.float32]) -> Iterator[Contender]:
    for pattern in Pattern:
        packed = pack(round_to_nearest(weight_NK, pattern, GROUP))
        products = copies(packed, case.batch)
        for bits in (8, 16):
            yield contender(f"ours {pattern} A{bits}", case, products, packed, x_MK, bits, "")
        if "avx512vnni" in usable_paths():
            yield contender(f"ours {pattern} A8 AVX2", case, products, packed, x_MK, 8, "avx2")
        if case.batch == 1:
            kept_NK = np.where(largest_of_four(np.abs(weight_NK), pattern), weight_NK, np.float32(0))
            packed = pack_bf16(kept_NK, pattern)
            yield contender(f"ours {pattern} BF16", case, copies(packed, case.batch), packed, x_MK, 16, "")


def copies(packed: PackedMatrix, batch: int) -> list[PackedProduct]:
    """The matrix as many times as cold reading needs, in one stretch of memory."""
    size = packed.tiles.nbytes
    count, lots = copies_of(size, batch)
    step = -(-size // 64) * 64
    memory = aligned_bytes(step * count * lots)
    found = []
    for number in range(count * lots):
        tiles = memory[number * step : number * step + size]
        tiles[:] = packed.tiles
        matrix = PackedMatrix(
            packed.pattern, packed.values, packed.rows, packed.columns, packed.group_size_T, packed.row_order, tiles
        )
        found.append(PackedProduct(matrix))
    return found


def contender(
    name: str,
    case: Case,
    products: list[PackedProduct],
    packed: PackedMatrix,
    x_MK: NDArray[np.float32],
    bits: int,
    path: str,
) -> Contender:
    count, lots = copies_of(packed.tiles.nbytes, case.batch)
    natives = [product.native for product in products]
    y_MN = np.zeros((case.batch, case.rows), np.float32)

    def burst(lot: int) -> None:
        part = natives[lot * count : (lot + 1) * count]
        _native.time_products(part, x_MK, y_MN, bits, case.threads, path)

    burst(0)
    wanted = x_MK.astype(np.float64) @ dequantised(packed).astype(np.float64).T
    return Contender(name, packed.tiles.nbytes, count, lots, burst, relative_error(y_MN, wanted))


def probe(case: Case) -> Contender:
    """Reads as many bytes as a burst, from memory of its own, and computes nothing."""
    size = BURST_BYTES[1]
    lots = max(2, -(-COLD_BYTES // size))
    memory = np.ones(size * lots, np.uint8)

    def burst(lot: int) -> None:
        _native.time_reading(memory[lot * size : (lot + 1) * size], case.threads, "")

    return Contender(PROBE, size, 1, lots, burst, 0.0)
