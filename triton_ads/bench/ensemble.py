"""`bench ensemble`: what the service around the engines costs and how well it batches, on the real server.

Needs a built repository (`triton-ads build`). One thread asks, for the time outside the engines; then 48 clients ask
in a closed loop, in turns with the default tier alone and with 10 % of the high tier. The load generator runs beside
the server, on the same cores.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.report import Report, Row
from triton_ads.client import RankClient
from triton_ads.client.request import rank_inputs
from triton_ads.commands.rank import current_release
from triton_ads.loadtest.load import Load, LoadError, Running, apply_load
from triton_ads.loadtest.requests import triton_request, write_requests
from triton_ads.manifest import Manifest
from triton_ads.recipe.names import RANK, chain_of
from triton_ads.server import TritonServer
from triton_ads.server.metrics import settled_metric

_CLIENTS = 48
_WINDOW = 20  # requests between two readings of the engine's time
_WINDOWS = 25
_POOL = 512  # different requests of a closed loop
_PATIENCE_MS = 20_000.0  # what is measured is time, so nothing is given up before


class Traffic:
    """Requests for the users and items that a release knows."""

    def __init__(self, release: Path, candidates: int) -> None:
        self._users, self._items = (np.load(release / "store" / side / "ids.npy") for side in ("users", "items"))
        self._candidates = candidates

    def draw(self, random: np.random.Generator) -> tuple[int, NDArray[np.int64]]:
        """A user, and candidates drawn with replacement."""
        return int(random.choice(self._users)), random.choice(self._items, self._candidates)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repository", type=Path, default=Path("var/repository"), help="default: %(default)s")
    parser.add_argument("--candidates", type=int, default=256, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=5, help="length of a turn (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="turns of each mix of tiers (default: %(default)s)")


def run(args: argparse.Namespace) -> Report:
    release = current_release(args.repository, RANK)
    router = Manifest.load(release, verify_files=False).recipe.router
    report = Report(f"service, {args.candidates} candidates a request")
    traffic = Traffic(release, args.candidates)
    with TritonServer(args.repository) as server:
        _outside_the_engines(report, server, router.default_tier, traffic)
        if router.high_tier is not None:
            _mixed_tiers(report, server, router.default_tier, router.high_tier, traffic, args)
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
    report: Report, server: TritonServer, default: str, high: str, traffic: Traffic, args: argparse.Namespace
) -> None:
    mixes = {f"{default} alone": {default: 1.0}, f"10 % {high}": {default: 0.9, high: 0.1}}
    medians: dict[str, list[float]] = {name: [] for name in mixes}
    per_batch: dict[str, list[float]] = {name: [] for name in mixes}
    rates: dict[str, list[float]] = {name: [] for name in mixes}
    for turn in range(args.turns):
        for name, tiers in mixes.items():
            before = _batches(server)
            times, rate = _closed_loop(server, args.seconds, traffic, tiers, turn)
            batches, requests = (after - b for after, b in zip(_batches(server), before, strict=True))
            medians[name].append(float(np.median(times[default])))
            per_batch[name].append(requests / batches)
            rates[name].append(rate)
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


def _closed_loop(
    server: TritonServer, seconds: float, traffic: Traffic, tiers: dict[str, float], seed: int
) -> tuple[dict[str, list[float]], float]:
    """Milliseconds of every answer by the tier that was insisted on, and answers a second.

    Args:
        tiers: tier -> its share of the requests.

    Raises:
        LoadError: a request was answered with an error.
    """
    random = np.random.default_rng(seed)
    insisted = random.choice(list(tiers), _POOL, p=list(tiers.values())).tolist()
    requests = []
    for tier in insisted:
        user, candidates = traffic.draw(random)
        requests.append(triton_request(RANK, rank_inputs(candidates, user_id=user, tier=tier)))
    running = Running(int(server.http_url.rpartition(":")[2]), server.process.members()[0].session)
    with tempfile.TemporaryDirectory(prefix="triton-ads-ensemble-") as folder:
        path = Path(folder) / "requests"
        write_requests(requests, path)
        outcome = apply_load(Load("closed", _CLIENTS, seconds, seed, _PATIENCE_MS), running, path)
    if outcome.errors:
        raise LoadError(outcome.first_error)
    times: dict[str, list[float]] = {tier: [] for tier in tiers}
    for number, ms in zip(outcome.numbers, outcome.ms, strict=True):
        times[insisted[number]].append(ms)
    return times, outcome.rate


def _batches(server: TritonServer) -> tuple[float, float]:
    """Executions of the model that scores, and requests in them."""
    url, model = server.metrics_url, chain_of(RANK, server.models)[-1]
    batches = settled_metric(url, "triton_ads_batches_total", model=model)
    return batches, settled_metric(url, "triton_ads_batched_requests_total", model=model)
