"""Measures the cases of `triton-ads bench gemv` that share a number of threads: an order as JSON in, figures out."""

import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.gemv import PROBE, Case

#: Weights that every contender turns through, so that none of its caches holds the next matrix.
COLD_BYTES = 160 << 20
#: Bytes of a burst: one to two milliseconds of reading. Fewer where a product is limited by arithmetic.
BURST_BYTES = {1: 40 << 20, 20: 8 << 20}


@dataclass(frozen=True)
class Contender:
    """`burst(i)` does `products` products with the i-th lot of matrices, of `lots` lots."""

    name: str
    nbytes: int
    products: int
    lots: int
    burst: Callable[[int], object]
    error: float


def copies_of(nbytes: int, batch: int) -> tuple[int, int]:
    """How many products make a burst and how many lots of matrices there are, for matrices of this size."""
    products = max(1, BURST_BYTES[batch] // nbytes)
    return products, max(2, -(-COLD_BYTES // (products * nbytes)))


def relative_error(found: NDArray[Any], wanted: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def take_turns(contenders: list[Contender], rounds: int, rest_s: float) -> dict[str, list[float]]:
    """Microseconds a product of every contender in every round, in an order that rotates.

    Before a contender's timed burst the threads of the one before it are given time to stop spinning, and one burst
    wakes its own.
    """
    us: dict[str, list[float]] = {one.name: [] for one in contenders}
    lots = {one.name: itertools.cycle(range(one.lots)) for one in contenders}
    for turn in range(rounds):
        first = turn % len(contenders)
        for one in contenders[first:] + contenders[:first]:
            time.sleep(rest_s)
            one.burst(next(lots[one.name]))
            lot = next(lots[one.name])
            start = time.perf_counter()
            one.burst(lot)
            us[one.name].append((time.perf_counter() - start) * 1e6 / one.products)
    return us


def measure(case: Case, rounds: int) -> dict[str, Any]:
    # Imported here: this module's names are theirs too.
    from triton_ads.bench import gemv_ours, gemv_peers, ggml_peer

    started = time.monotonic()
    rng = np.random.default_rng(0)
    weight_NK = rng.standard_normal((case.rows, case.columns), dtype=np.float32) * np.float32(0.02)
    x_MK = rng.standard_normal((case.batch, case.columns), dtype=np.float32)
    contenders = [
        *gemv_ours.contenders(case, weight_NK, x_MK),
        *gemv_peers.contenders(case, weight_NK, x_MK),
        *ggml_peer.contenders(case, weight_NK, x_MK),
        gemv_ours.probe(case),
    ]
    us = take_turns(contenders, rounds, rest_s=0.001 if case.threads == 1 else 0.02)
    print(f"{case.name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return {
        "us": us,
        "nbytes": {one.name: one.nbytes for one in contenders},
        "error": {one.name: one.error for one in contenders if one.name != PROBE},
    }


def main() -> None:
    order = json.loads(sys.stdin.read())
    found = [measure(Case(**case), order["rounds"]) for case in order["cases"]]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
