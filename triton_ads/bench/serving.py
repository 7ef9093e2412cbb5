"""`bench serving`: the ensemble beside three other ways to serve the same ranker, under load.

Needs a build (`triton-ads build`), and FastAPI for the last of them: `pip install -e .[bench-serving]`. Contenders: see
serving_peers/. All are started on one core and wait there, using about a hundredth of it, while one of them is
measured; each load goes to all of them in turn, so that what else the machine does meets them alike. The load generator
has another core, as far as there is one. Before it is measured, a contender must answer what the row-wise PyTorch
module answers.

Closed loops give requests a second and latencies for a number of clients; open loops give latencies at rising rates,
which are shares of what the contender itself reached with 32 clients, until the 99th percentile passes the deadline of
the recipe or the server no longer keeps up.
"""

import argparse
import http.client
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from triton_ads.bench import serving_contender as contenders
from triton_ads.bench import serving_requests as requests
from triton_ads.bench.serving_contender import NAIVE, OURS, UNMIXED, Answer, Ask, Contender
from triton_ads.bench.serving_cores import Cores, busy_s, on_core
from triton_ads.bench.serving_peers.ranker import export_rows, load_ranker
from triton_ads.bench.serving_plot import save_plot
from triton_ads.bench.serving_report import CLAIMED, ServingReport
from triton_ads.loadtest.load import Load, LoadError, Outcome, Running, apply_load
from triton_ads.loadtest.requests import Prepared, write_requests
from triton_ads.manifest import Manifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe.names import RANK, prefixed
from triton_ads.server.ports import HOST

#: Offered rates of the open loop, as shares of what the contender answered in the closed loop of CLAIMED clients.
SHARES = (0.3, 0.5, 0.65, 0.8, 0.9, 1.0)
TOLERANCE = 1e-4
DISTURBED = 0.1  # others that use more of the server's core are told; the machine's own work takes a hundredth or two
POOL = 256  # different requests of a mix
#: Requests that Triton's dynamic batcher gives to a peer at once. Measured at 1, 4 and 64: the processor time of a
#: request differs by less than a tenth, and a batch of 64 keeps its first request waiting for the last.
PEER_BATCH = 4


class DifferentScoresError(RuntimeError):
    """A contender does not answer what the model answers; the message says which, where and by how much."""


@dataclass(frozen=True)
class Plan:
    """What one turn of a contender measures."""

    seconds: float
    closed: dict[str, tuple[int, ...]]  # mix -> numbers of clients
    open: dict[str, tuple[float, ...]]  # mix -> shares

    @classmethod
    def of(cls, seconds: float, quick: bool) -> "Plan":
        first, second = requests.MIXES
        if quick:
            return cls(seconds, {first: (1, CLAIMED), second: (CLAIMED,)}, {first: SHARES[1::2]})
        clients = (1, 8, CLAIMED, 48)
        return cls(seconds, {first: clients, second: clients}, {first: SHARES, second: SHARES})


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--var", type=Path, default=Path("var"), help="where the build is (default: %(default)s)")
    parser.add_argument("--recipe", default="movielens", metavar="NAME", help="what was built (default: %(default)s)")
    parser.add_argument("--tier", help="default: the recipe's default tier")
    parser.add_argument("--seconds", type=float, help="length of one measurement (default: 2.5; --quick: 1)")
    parser.add_argument("--turns", type=int, help="turns of every contender (default: 2; --quick: 1)")
    parser.add_argument("--quick", action="store_true", help="fewer loads: 1.5 minutes instead of 10")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the open loops, as SVG")


def run(args: argparse.Namespace) -> ServingReport:
    torch.set_num_threads(1)
    cores = Cores.choose()
    _say(cores.describe())
    layout = Layout(args.var, args.recipe)
    release = layout.release.resolve()
    recipe = Manifest.load(release, verify_files=False).recipe
    tier = args.tier or recipe.router.default_tier
    plan = Plan.of(args.seconds or (1 if args.quick else 2.5), args.quick)
    turns = args.turns or (1 if args.quick else 2)
    report = ServingReport(f"service, tier {tier}", deadline_ms=recipe.serving.deadline_ms)
    report.setting = {"cores": cores.describe(), "tier": tier, "release": release.name, "turns": turns}
    with tempfile.TemporaryDirectory(prefix="triton-ads-serving-") as temporary:
        bench = Bench(layout, tier, Path(temporary), cores)
        with bench.started():
            for turn in range(turns):
                bench.take_turn(plan, turn, report)
        report.setting["largest share of the server's core used by others"] = round(bench.disturbed, 3)
        if bench.disturbed > DISTURBED:
            _say(
                f"other processes used up to {bench.disturbed:.0%} of the server's core: rates are too low, latencies "
                "too high, and not by the same for every contender; the core time of a request can be compared"
            )
    report.conclude()
    if args.plot:
        save_plot(report, args.plot)
    return report


class Bench:
    """The contenders of one tier of the release that was built last, and what is asked of them."""

    def __init__(self, layout: Layout, tier: str, folder: Path, cores: Cores) -> None:
        release = layout.release.resolve()
        recipe = Manifest.load(release, verify_files=False).recipe
        self._cores = cores
        self.disturbed = 0.0  # largest share of the server's core that others used during a load
        checkpoint = layout.work("train", tier) / "checkpoint.pt"
        _say("exporting the row-wise graph")
        ranker = load_ranker(release, checkpoint, tier)
        naive, unmixed = folder / "naive", folder / "unmixed"
        version = contenders.write_peer("naive", "NaiveModel", release, tier, PEER_BATCH, naive)
        export_rows(ranker, release, version)
        contenders.write_peer("unmixed", "UnmixedModel", release, tier, PEER_BATCH, unmixed)
        other = contenders.other_layout(release, folder / "other_layout")
        model = prefixed(RANK, recipe.serving.prefix)
        self.contenders = [
            contenders.ours(OURS, layout.repository, model, tier),
            contenders.ours(f"{OURS} as {other}", folder / "other_layout", model, tier),
            contenders.triton_peer(NAIVE, "naive", naive),
            contenders.triton_peer(UNMIXED, "unmixed", unmixed),
        ]
        if contenders.fastapi_is_installed():
            self.contenders.append(contenders.fastapi(release, checkpoint, tier))
        else:
            print("FastAPI is left out: pip install -e .[bench-serving]", file=sys.stderr)
        longest = recipe.serving.max_candidates
        self._samples = requests.samples(release, longest)
        self._right = requests.right_scores(ranker, release, self._samples)
        self._servers: dict[str, Running] = {}
        self._requests: dict[tuple[str, str], Path] = {}
        for i, (mix, lengths) in enumerate(requests.MIXES.items()):
            asks = requests.draw(release, lengths, POOL, longest, seed=2)
            for j, contender in enumerate(self.contenders):
                path = self._requests[contender.name, mix] = folder / f"requests-{i}-{j}"
                write_requests([Prepared(contender.request(ask)) for ask in asks], path)

    @contextmanager
    def started(self) -> Iterator[None]:
        """Start all contenders, and check what they answer."""
        with ExitStack() as stack:
            for contender in self.contenders:
                _say(f"starting {contender.name}")
                with on_core(self._cores.server):
                    self._servers[contender.name] = stack.enter_context(contender.serve())
                found = [self.ask(contender.name, ask) for ask in self._samples]
                check_scores(contender.name, self._samples, found, self._right)
            stack.enter_context(on_core(self._cores.generator))
            yield

    def take_turn(self, plan: Plan, turn: int, report: ServingReport) -> None:
        """Apply every load to all contenders, in an order that rotates from load to load."""
        order = deque(self.contenders)
        order.rotate(turn)
        for mix in requests.MIXES:
            for clients in plan.closed[mix]:
                _say(f"turn {turn + 1}, {mix}, {clients} clients")
                for contender in order:
                    outcome = self._measure(contender, mix, Load("closed", clients, plan.seconds, seed=turn))
                    report.closed[contender.name, mix, clients].append(outcome)
                order.rotate()
            saturated: set[str] = set()
            for share in plan.open.get(mix, ()):
                _say(f"turn {turn + 1}, {mix}, {share:.0%} of the rate with {CLAIMED} clients")
                for contender in order:
                    if contender.name in saturated:
                        continue
                    # The rates of the first turn, so that turns can be compared.
                    rate = share * report.closed[contender.name, mix, CLAIMED][0].rate
                    outcome = self._measure(contender, mix, Load("open", rate, plan.seconds, seed=turn))
                    report.open[contender.name, mix, rate].append(outcome)
                    if outcome.percentile(0.99) > report.deadline_ms or not outcome.kept_up:
                        saturated.add(contender.name)
                order.rotate()

    def _measure(self, contender: Contender, mix: str, load: Load) -> Outcome:
        server, core = self._servers[contender.name], self._cores.server
        start, busy, used = time.monotonic(), busy_s(core), server.cpu_s()
        outcome = apply_load(load, server, self._requests[contender.name, mix])
        others = (busy_s(core) - busy - (server.cpu_s() - used)) / (time.monotonic() - start)
        self.disturbed = max(self.disturbed, others)
        errors = f", {outcome.errors} ERRORS: {outcome.first_error}" if outcome.errors else ""
        _say(
            f"    {contender.name:18} {outcome.rate:7.1f} requests/s, p50 {outcome.percentile(0.5):7.1f} ms, "
            f"p99 {outcome.percentile(0.99):7.1f} ms, {outcome.core_ms:6.2f} ms of the core a request{errors}"
        )
        return outcome

    def ask(self, name: str, ask: Ask) -> NDArray[np.float32]:
        """What a contender that was started answers: scores [N, K]."""
        (contender,) = (c for c in self.contenders if c.name == name)
        return contender.scores(ask_once(self._servers[name].port, contender.request(ask)), ask)


def check_scores(
    name: str, asks: Sequence[Ask], found: Sequence[NDArray[np.float32]], right: Sequence[NDArray[np.float32]]
) -> None:
    """
    Raises:
        DifferentScoresError: what a contender has found, scores [N, K] of each request, is not right.
    """
    for ask, found_NK, right_NK in zip(asks, found, right, strict=True):
        difference = float(np.abs(found_NK - right_NK).max()) if found_NK.shape == right_NK.shape else float("inf")
        if not difference <= TOLERANCE:  # also refuses NaN
            raise DifferentScoresError(
                f"{name}, {len(ask.candidates_N)} candidates: scores differ by {difference:.2e} from the model's, "
                f"allowed {TOLERANCE:.0e}; is the checkpoint that of the release?"
            )


def ask_once(port: int, request: bytes) -> Answer:
    """Send prepared bytes, and read the response.

    Raises:
        LoadError: it is an error.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        connection.connect()
        connection.sock.sendall(request)
        response = http.client.HTTPResponse(connection.sock, method="POST")
        response.begin()
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        raise LoadError(f"HTTP {response.status}: {body[:200].decode(errors='replace')}")
    return Answer({name.lower(): value for name, value in response.getheaders()}, body)


def _say(text: str) -> None:
    print(text, flush=True)
