"""`bench ensemble`: what the service around the engines costs and how well it batches, on the real server.

Needs a built repository (`triton-ads build`). One thread asks, for the time outside the engines; then 48 clients ask
in a closed loop, in turns with the default tier alone and with 10 % of the high tier. The clients run beside the
server, on the same cores.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from triton_ads.bench.closed_loop import Traffic, in_own_process
from triton_ads.bench.report import Report, Row
from triton_ads.client import RankClient
from triton_ads.commands.rank import current_release
from triton_ads.manifest import Manifest
from triton_ads.recipe.names import RANK, chain_of
from triton_ads.server import TritonServer
from triton_ads.server.metrics import settled_metric

_CLIENTS = 48
_WINDOW = 20  # requests between two readings of the engine's time
_WINDOWS = 25


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repository", type=Path, default=Path("var/repository"), help="default: %(default)s")
    parser.add_argument("--candidates", type=int, default=256, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=5, help="length of a turn (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each mix of tiers (default: %(default)s)")


def run(args: argparse.Namespace) -> Report:
    release = current_release(args.repository, RANK)
    router = Manifest.load(release, verify_files=False).recipe.router
    report = Report(f"service, {args.candidates} candidates a request")
    with TritonServer(args.repository) as server:
        _outside_the_engines(report, server, router.default_tier, Traffic(release, args.candidates))
        if router.high_tier is not None:
            _mixed_tiers(report, server, router.default_tier, router.high_tier, release, args)
    return report


def _outside_the_engines(report: Report, server: TritonServer, tier: str, traffic: Traffic) -> None:
    """Median time of an answer less the mean time in the engines, window by window; the median of the windows."""
    random = np.random.default_rng(0)
    whole, engines = [], []
    with RankClient(server.grpc_url) as client:

        def window() -> list[float]:
            times = []
            for _ in range(_WINDOW):
                user, candidates = traffic.draw(random)
                start = time.perf_counter()
                client.rank(candidates, user_id=user, tier=tier, deadline_ms=5_000)
                times.append((time.perf_counter() - start) * 1e3)
            return times

        window()
        for _ in range(_WINDOWS):
            before = settled_metric(server.metrics_url, "triton_ads_engine_seconds_total", tier=tier)
            times = window()
            after = settled_metric(server.metrics_url, "triton_ads_engine_seconds_total", tier=tier)
            whole.append(float(np.median(times)))
            engines.append((after - before) * 1e3 / _WINDOW)
    outside = np.array(whole) - np.array(engines)
    name = f"one client, tier {tier}"
    n = _WINDOWS * _WINDOW
    report.rows.append(Row(name, "service", "answer", float(np.median(whole)), "ms", n))
    report.rows.append(Row(name, "service", "in the engines", float(np.median(engines)), "ms", n))
    report.rows.append(Row(name, "service", "outside the engines", float(np.median(outside)), "ms", n))
    report.claim("one client: median outside the engines, ms", float(np.median(outside)), "<=", 1.5)


def _mixed_tiers(
    report: Report, server: TritonServer, default: str, high: str, release: Path, args: argparse.Namespace
) -> None:
    mixes = {f"{default} alone": {default: 1.0}, f"10 % {high}": {default: 0.9, high: 0.1}}
    medians: dict[str, list[float]] = {name: [] for name in mixes}
    per_batch: dict[str, list[float]] = {name: [] for name in mixes}
    rates: dict[str, list[float]] = {name: [] for name in mixes}
    for turn in range(args.turns):
        for name, tiers in mixes.items():
            before = _batches(server)
            times = in_own_process(server.grpc_url, _CLIENTS, args.seconds, release, args.candidates, tiers, turn)
            batches, requests = (after - b for after, b in zip(_batches(server), before, strict=True))
            medians[name].append(float(np.median(times[default])))
            per_batch[name].append(requests / batches)
            rates[name].append(sum(map(len, times.values())) / args.seconds)
    for name in mixes:
        case = f"{_CLIENTS} clients, {name}"
        report.rows.append(
            Row(case, "service", f"answer of {default}", float(np.median(medians[name])), "ms", args.turns)
        )
        report.rows.append(Row(case, "service", "requests", float(np.median(rates[name])), "1/s", args.turns))
        report.rows.append(
            Row(case, "service", "requests an execution", float(np.median(per_batch[name])), "requests", args.turns)
        )
    alone, mixed = (np.array(medians[name]) for name in mixes)
    fewest = float(min(np.median(values) for values in per_batch.values()))
    report.claim(f"{_CLIENTS} clients: requests an execution of the model that scores", fewest, ">=", 10)
    slower = float(np.median(mixed / alone))
    report.claim(f"{_CLIENTS} clients: median of {default} with 10 % {high} / without", slower, "<=", 1.5)


def _batches(server: TritonServer) -> tuple[float, float]:
    """Executions of the model that scores, and requests in them."""
    url, model = server.metrics_url, chain_of(RANK, server.models)[-1]
    batches = settled_metric(url, "triton_ads_batches_total", model=model)
    return batches, settled_metric(url, "triton_ads_batched_requests_total", model=model)
