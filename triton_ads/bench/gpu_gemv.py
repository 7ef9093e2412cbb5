"""SparseGemv on a GPU: time, bandwidth and error of each pattern beside torch's float16 product.

    python -m triton_ads.bench.gpu_gemv

Weights are cold: each product reads the next of as many matrices as exceed the cache. Needs a CUDA device and the
library built with TRITON_ADS_CUDA=ON; scripts/gpu_check.sh provides both checks and this table.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from triton_ads.bench.gemv import SHAPES
from triton_ads.compression.packing import dequantised, pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import round_to_nearest
from triton_ads.serving.gpu.sparse_gemv import DeviceMatrix

#: More than the second-level cache of any GPU so far.
COLD_BYTES = 256 << 20
ROUNDS = 20


def microseconds(products: list[Callable[[], object]]) -> float:
    """Median over rounds of the time of one product, each round replaying all of them as one CUDA graph: a product is
    shorter than the call that queues it."""
    for product in products:
        product()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for product in products:
            product()
    times = []
    for _ in range(ROUNDS + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / len(products))
    return float(np.median(times[2:]))


def measure(rows: int, columns: int, batch: int, table: Table) -> None:
    rng = np.random.default_rng(0)
    weight_NK = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)
    x_MK = torch.from_numpy(rng.standard_normal((batch, columns), dtype=np.float32)).half().cuda()
    half_NK = torch.from_numpy(weight_NK).half().cuda()
    copies = max(2, -(-COLD_BYTES // half_NK.nbytes))
    halves = [half_NK.clone() for _ in range(copies)]
    plain_us = microseconds([partial(torch.nn.functional.linear, x_MK, one) for one in halves])
    case = f"{columns} -> {rows}, M={batch}"
    table.add_row(case, "torch FP16", f"{plain_us:.1f}", f"{half_NK.nbytes / plain_us / 1e3:.0f}", "1.00", "")
    for pattern in Pattern:
        packed = pack(round_to_nearest(weight_NK, pattern))
        copies = max(2, -(-COLD_BYTES // packed.tiles.nbytes))
        matrices = [DeviceMatrix.of(packed, "cuda") for _ in range(copies)]
        us = microseconds([partial(one, x_MK) for one in matrices])
        wanted = x_MK.double().cpu().numpy() @ dequantised(packed).astype(np.float64).T
        found = matrices[0](x_MK).cpu().numpy()
        error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
        rate = packed.tiles.nbytes / us / 1e3
        table.add_row(case, f"ours {pattern}", f"{us:.1f}", f"{rate:.0f}", f"{plain_us / us:.2f}", f"{error:.1e}")


def main() -> None:
    table = Table("case", "contender", "us", "GB/s", "times FP16", "error", title=torch.cuda.get_device_name())
    for rows, columns in SHAPES:
        for batch in (1, 4, 8, 20):
            measure(rows, columns, batch, table)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
