"""Products of one or twenty activations with a weight matrix: our packed kernels beside the public CPU runtimes.

Weights are cold: every contender turns through at least 160 MB of its own matrices. Contenders run in short bursts, in
turns, beside a probe that only reads memory, so every figure is a ratio taken within one run. Each number of threads
runs in a process of its own, because several runtimes fix it when they load. Ours is timed from C++ call to C++ call,
as ONNX Runtime's and llama.cpp's graphs are; NumPy and torch pay for one Python call a product.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.gemv_contender import PROBE, Case
from triton_ads.bench.report import Report, Row

#: K -> N of the products: outputs x inputs of layers of 1.5 and 7 billion parameter models.
SHAPES = ((1536, 1536), (6144, 1536), (4096, 4096), (11008, 4096))
INT4_PEERS = ("torch INT4", "ONNX Runtime", "llama.cpp Q4_0", "llama.cpp Q4_K")


@dataclass(frozen=True)
class Measured:
    """Microseconds of each contender in each round, the bytes of one product, the error of its result."""

    case: Case
    us: dict[str, NDArray[np.float64]]
    nbytes: dict[str, int]
    error: dict[str, float]

    def ratio(self, slow: str, fast: str) -> float:
        """Median over the rounds of slow / fast."""
        return float(np.median(self.us[slow] / self.us[fast]))

    def of_probe(self, contender: str) -> float:
        """Bytes per second of a contender as a share of what the probe read in the same round."""
        rate = self.nbytes[contender] / self.us[contender]
        return float(np.median(rate / (self.nbytes[PROBE] / self.us[PROBE])))

    @property
    def best_int4_peer(self) -> str:
        present = [name for name in INT4_PEERS if name in self.us]
        return min(present, key=lambda name: float(np.median(self.us[name])))


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=21, help="rounds of bursts; medians are over rounds")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="numbers of threads")
    parser.add_argument("--shapes", type=int, nargs="+", default=list(range(len(SHAPES))), metavar="I",
                        help=f"which of {SHAPES} (outputs, inputs), by number from 0")  # fmt: skip


def run(args: argparse.Namespace) -> Report:
    shapes = [SHAPES[index] for index in args.shapes]
    measured = [one for threads in args.threads for one in measure_in_child(shapes, threads, args.rounds)]
    return report_of(measured, args.rounds)


def measure_in_child(shapes: Iterable[tuple[int, int]], threads: int, rounds: int) -> list[Measured]:
    """M=1 and, on one thread, M=20 for every shape."""
    cases = [
        Case(rows, columns, batch, threads) for rows, columns in shapes for batch in ((1, 20) if threads == 1 else (1,))
    ]
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        # Large pages for everybody's weights.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }
    order = json.dumps({"cases": [asdict(case) for case in cases], "rounds": rounds})
    finished = subprocess.run(
        [sys.executable, "-m", "triton_ads.bench.gemv_child"],
        input=order, stdout=subprocess.PIPE, text=True, env=environment, check=True,
    )  # fmt: skip
    return [
        Measured(
            case,
            {name: np.array(us) for name, us in found["us"].items()},
            found["nbytes"],
            found["error"],
        )
        for case, found in zip(cases, json.loads(finished.stdout), strict=True)
    ]


def report_of(measured: list[Measured], rounds: int) -> Report:
    report = Report("products with cold weights")
    for one in measured:
        for name, us in one.us.items():
            for metric, value in zip(
                ("median", "10 % quantile", "90 % quantile"), np.quantile(us, [0.5, 0.1, 0.9]), strict=True
            ):
                report.rows.append(Row(one.case.name, name, metric, float(value), "us", rounds))
            if name == PROBE:
                rate = float(np.median(one.nbytes[name] / us / 1e3))
                report.rows.append(Row(one.case.name, name, "bandwidth", rate, "GB/s", rounds))
                continue
            report.rows.append(Row(one.case.name, name, "share of the probe", one.of_probe(name), "", rounds))
            report.rows.append(Row(one.case.name, name, "relative error", one.error[name], "", 1))
            if name.startswith("ours"):
                peer = one.best_int4_peer
                report.rows.append(Row(one.case.name, name, f"times {peer}", one.ratio(peer, name), "", rounds))
    add_claims(report, measured)
    return report


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


def add_claims(report: Report, measured: list[Measured]) -> None:
    """The promises of the project, each over the shapes of this run: geometric means, and minima where it says so."""
    single = [one for one in measured if one.case.threads == 1 and one.case.batch == 1]
    several = [one for one in measured if one.case.threads == 2 and one.case.batch == 1]
    batched = [one for one in measured if one.case.threads == 1 and one.case.batch == 20]

    def times_best(cases: list[Measured], contender: str, target: float, text: str) -> None:
        if cases and contender in cases[0].us:
            mean = geometric_mean(one.ratio(one.best_int4_peer, contender) for one in cases)
            report.claim(f"{text}: {contender} times the best INT4 peer", mean, ">=", target)

    for contender, target in (("ours dense A8", 1.4), ("ours 2:4 A8", 1.8), ("ours 1:4 A8", 3.3)):
        times_best(single, contender, target, "M=1")
    for contender, target in (("ours dense A16", 1.25), ("ours 2:4 A16", 1.65), ("ours 1:4 A16", 3.0)):
        times_best(single, contender, target, "M=1")
    times_best(single, "ours 2:4 A8 AVX2", 1.4, "M=1")
    if single:
        for contender, times, share in (("ours 2:4 A8", 10.0, 0.9), ("ours 1:4 A8", 19.0, 0.85)):
            mean = geometric_mean(one.ratio("torch BF16", contender) for one in single)
            report.claim(f"M=1: {contender} times torch BF16", mean, ">=", times)
            mean = geometric_mean(one.of_probe(contender) for one in single)
            report.claim(f"M=1: {contender} share of the probe's bandwidth", mean, ">=", share)
    if several:
        for pattern, target in (("2:4", 1.2), ("1:4", 2.2)):
            for arithmetic in ("A8", "A16"):
                name = f"ours {pattern} {arithmetic}"
                least = min(one.ratio(one.best_int4_peer, name) for one in several)
                report.claim(f"M=1, 2 threads: {name} times the best INT4 peer, least", least, ">=", target)
    for contender, target in (("ours 2:4 A8", 1.9), ("ours 1:4 A8", 2.8), ("ours 2:4 A16", 1.25)):
        times_best(batched, contender, target, "M=20")
