"""Put a running server under load, and write a report: one HTML file, and JSON beside it.

    triton-ads loadtest
    triton-ads loadtest --duration 60 --tier standard --out var/loadtest/standard.html
    triton-ads loadtest --naive
    triton-ads loadtest compare var/loadtest/before.json var/loadtest/after.json

Requests are due at the times of a Poisson process, whatever the server does. Rates rise until one in a hundred requests
is not answered within the deadline; the highest rate that holds is held for the rest of the time, and lowered where it
fails. --naive does the same with the row-wise model behind the same Triton, and says what either costs. Load goes to
127.0.0.1 only. Users and ads are those of the release that the repository has; start its server with `triton-ads
serve`. Exit status 1 where nothing could be measured, no rate held, or the counts of client and server are more than
2 % apart.
"""

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from triton_ads.bench.report import machine
from triton_ads.client import RankClient, RankError
from triton_ads.client.request import rank_inputs
from triton_ads.commands.options import MAX_PORT, whole
from triton_ads.commands.rank import current_release, ranker
from triton_ads.commands.serve import HEALTH_PORT, HTTP_PORT, METRICS_PORT, REPOSITORY
from triton_ads.loadtest.compare import compare_page, compare_table
from triton_ads.loadtest.judgement import IN_TIME
from triton_ads.loadtest.load import Running
from triton_ads.loadtest.observe import Observer
from triton_ads.loadtest.page import page
from triton_ads.loadtest.report import Contender, LoadReport
from triton_ads.loadtest.requests import Prepared, triton_request, write_requests
from triton_ads.loadtest.run import Trial
from triton_ads.loadtest.schedule import Schedule
from triton_ads.loadtest.statistics import ServerError, TritonStatistics
from triton_ads.loadtest.summary import summary
from triton_ads.loadtest.traffic import EXPONENT, MEDIAN, SIGMA, UNKNOWN, Traffic
from triton_ads.loadtest.usage import find_server
from triton_ads.manifest import Manifest, ManifestError
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.server.ports import HOST

#: Different requests; they come round again in turn.
POOL = 2048
_NOBODY = -1  # a session without processes
_CLIENT_S = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--duration", type=float, default=180, metavar="S", help="seconds in all (%(default)g)")
    parser.add_argument("--deadline-ms", type=float, default=100, metavar="MS", help="of every request (%(default)g)")
    parser.add_argument(
        "--in-time",
        type=float,
        default=100 * IN_TIME,
        metavar="P",
        help="per cent of the requests that must be in time for a rate to hold (%(default)g)",
    )
    parser.add_argument("--tier", default="", help="insist on a tier; by default the router chooses")
    parser.add_argument("--naive", action="store_true", help="also the row-wise model; takes twice the time, one tier")
    parser.add_argument(
        "--out", type=Path, default=Path("var/loadtest/report.html"), metavar="FILE", help="(%(default)s)"
    )
    parser.add_argument("--model", metavar="NAME", help="PREFIX_rank of a recipe with a prefix (the only one, or rank)")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="that is being served (%(default)s)")
    parser.add_argument("--seed", type=whole(0), default=0, help="of the draw of requests (%(default)s)")
    none = "; 0: there is none"
    for name, port, zero in (("http", HTTP_PORT, ""), ("metrics", METRICS_PORT, none), ("health", HEALTH_PORT, none)):
        parser.add_argument(
            f"--{name}-port",
            type=whole(0, MAX_PORT),
            default=port,
            metavar="PORT",
            help=f"of the server (%(default)s){zero}",
        )
    actions = parser.add_subparsers(dest="action", metavar="compare")
    compare = actions.add_parser("compare", help="two reports beside each other", description="Two runs, and ratios.")
    compare.add_argument("first", type=Path, metavar="A.json")
    compare.add_argument("second", type=Path, metavar="B.json")
    compare.add_argument("--html", type=Path, metavar="FILE", help="also write a page")
    # argparse has no brackets for a sub-command that may be left out.
    parser.usage = "%(prog)s [options]\n       %(prog)s compare [--html FILE] A.json B.json"


def run(args: argparse.Namespace) -> int:
    if args.action == "compare":
        return _compare(args)
    try:
        report = load_test(args)
    except (RankError, ManifestError, ValueError) as error:
        print(f"triton-ads loadtest: {error}", file=sys.stderr)
        return 1
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(page(report), encoding="utf-8")
    report.save(args.out.with_suffix(".json"))
    console = Console()
    summary(report, console if console.is_terminal else Console(width=120))
    print(f"report: {args.out}, {args.out.with_suffix('.json')}")
    agree = all(check.agrees for contender in report.contenders for check in contender.checks)
    return 0 if agree and all(contender.held for contender in report.contenders) else 1


def load_test(args: argparse.Namespace) -> LoadReport:
    """
    Raises:
        ServerError, RankError: the server is not there, not ready, or serves something else.
        ManifestError: the repository has no such release.
        ValueError: an option that is not allowed.
    """
    schedule = Schedule.of(args.duration)
    if not 0 < args.deadline_ms <= 60_000:
        raise ValueError(f"--deadline-ms: {args.deadline_ms:g} found, above 0 and at most 60000 allowed")
    if not 50 <= args.in_time < 100:
        raise ValueError(f"--in-time: {args.in_time:g} % found, 50 to below 100 allowed")
    model = ranker(args.repository, args.model)
    release = current_release(args.repository, model)
    manifest = Manifest.load(release, verify_files=False)
    recipe = manifest.recipe
    tier = args.tier or (recipe.router.default_tier if args.naive else "")
    if tier and tier not in recipe.tiers:
        raise ValueError(f"--tier: {tier!r} found, allowed: {', '.join(recipe.tiers)}")
    url = f"{HOST}:{args.http_port}"
    statistics = TritonStatistics(url)
    statistics.check_ready(model)
    _check_release(url, model, manifest.release, tier)
    traffic = Traffic.of_release(release, recipe.serving.max_candidates)
    random = np.random.default_rng(args.seed)
    asks = [(traffic.user(random), traffic.candidates(random)) for _ in range(POOL)]
    began, start = datetime.now(UTC), time.monotonic()
    found = {**machine(), "triton": statistics.server_version()}
    with tempfile.TemporaryDirectory(prefix="triton-ads-load-") as temporary:
        prepared = [triton_request(model, rank_inputs(ids, user_id=user, tier=tier)) for user, ids in asks]
        contenders = [_ours(args, schedule, model, prepared, Path(temporary) / "ours")]
        if args.naive:
            contenders.append(_naive(args, schedule, release, recipe, tier, asks, Path(temporary) / "naive"))
    return LoadReport(
        command=shlex.join(["triton-ads", *sys.argv[1:]]),
        began=began,
        seconds=time.monotonic() - start,
        deadline_ms=args.deadline_ms,
        in_time=args.in_time / 100,
        recipe=recipe.name,
        release=manifest.release,
        tier=tier,
        traffic=(
            f"Poisson arrivals; Zipf users (exponent {EXPONENT:g}), {UNKNOWN:.0%} of the requests from unknown ones; "
            f"candidates log-normal, median {MEDIAN}, sigma {SIGMA:g}, at most {traffic.longest}; "
            "HTTP with binary tensors"
        ),
        machine=found,
        contenders=contenders,
    )


def _ours(args: argparse.Namespace, schedule: Schedule, model: str, prepared: list[Prepared], path: Path) -> Contender:
    write_requests(prepared, path)
    server = find_server(args.http_port)
    metrics = f"http://{HOST}:{args.metrics_port}/metrics" if args.metrics_port else None
    status = f"http://{HOST}:{args.health_port}/status" if args.health_port else None
    return Trial(
        "triton-ads",
        f"{model}, as it is served",
        server or Running(args.http_port, _NOBODY),
        path,
        Observer(f"{HOST}:{args.http_port}", model, metrics, status),
        args.deadline_ms,
        visible=server is not None,
        say=_say,
        in_time=args.in_time / 100,
    ).run(schedule)


def _naive(
    args: argparse.Namespace,
    schedule: Schedule,
    release: Path,
    recipe: Recipe,
    tier: str,
    asks: Sequence[tuple[int, NDArray[np.int64]]],
    path: Path,
) -> Contender:
    from triton_ads.bench.serving_contender import Ask  # brings PyTorch
    from triton_ads.bench.serving_naive import MODEL, naive_server

    cores = len(os.sched_getaffinity(0))
    layout = Layout(args.repository.resolve().parent, recipe.name)
    _say("exporting the row-wise model, and starting it")
    with naive_server(layout, release, tier, recipe.serving.max_candidates, cores) as (contender, server):
        write_requests([Prepared(contender.request(Ask(user, ids)), candidates=len(ids)) for user, ids in asks], path)
        return Trial(
            "naive",
            f"the row-wise model of tier {tier} in one Python model, {cores} processes",
            server,
            path,
            Observer(f"{HOST}:{server.port}", MODEL),
            args.deadline_ms,
            visible=True,
            say=_say,
            in_time=args.in_time / 100,
        ).run(schedule)


def _check_release(url: str, model: str, release: str, tier: str) -> None:
    with RankClient(url, "http", model=model, timeout_s=_CLIENT_S) as client:
        found = client.rank([1, 2, 3], user_id=1, tier=tier, deadline_ms=_CLIENT_S * 1000).release
    if found != release:
        raise ServerError(
            f"the server at {url} answers for release {found}, the repository's newest is {release}: "
            "name the repository that it serves with --repository, or start it again"
        )


def _compare(args: argparse.Namespace) -> int:
    try:
        first, second = LoadReport.load(args.first), LoadReport.load(args.second)
    except OSError as error:
        wanted = "the .json that `triton-ads loadtest` writes beside its report is wanted"
        print(f"triton-ads loadtest: {error.filename}: {error.strerror}; {wanted}", file=sys.stderr)
        return 1
    console = Console()
    compare_table(first, second, console if console.is_terminal else Console(width=120))
    if args.html:
        args.html.parent.mkdir(parents=True, exist_ok=True)
        args.html.write_text(compare_page(first, second, str(args.first), str(args.second)), encoding="utf-8")
        print(f"page: {args.html}")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)
