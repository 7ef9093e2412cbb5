"""Measures the cases of `triton-ads bench gemv` that share a number of threads: an order as JSON in, figures out."""

import itertools
import json
import sys
import time
from typing import Any

import numpy as np

from triton_ads.bench import gemv_ours, gemv_peers, ggml_peer
from triton_ads.bench.gemv_contender import PROBE, Case, Contender


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
