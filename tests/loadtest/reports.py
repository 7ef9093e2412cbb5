"""A report with every part filled, of literal values."""

from datetime import UTC, datetime
from typing import Literal

from triton_ads.loadtest.judgement import GIVEN_UP, LATE
from triton_ads.loadtest.report import (
    Check,
    Contender,
    Cost,
    Held,
    LoadReport,
    ModelTimes,
    Moment,
    TierShare,
    TileFill,
    Usage,
    Window,
)


def window(
    offered: float,
    p99_ms: float,
    holds: bool,
    causes: dict[str, int] | None = None,
    phase: Literal["rising", "held"] = "rising",
) -> Window:
    return Window(
        phase=phase,
        offered=offered,
        seconds=10.0 if phase == "rising" else 20.0,
        requests=round(offered * (10 if phase == "rising" else 20)),
        answered_well=round(offered * (10 if phase == "rising" else 20)) - (0 if holds else 7),
        answered=offered,
        p50_ms=p99_ms / 4,
        p95_ms=p99_ms / 2,
        p99_ms=p99_ms,
        in_time=0.999 if holds else 0.9,
        holds=holds,
        causes=causes or {},
        generator_busy=0.05,
    )


def contender(name: str, rate: float, core_s: float | None) -> Contender:
    held = Held(
        window=window(rate, 80.0, True, {LATE: 4, "HTTP 400: <odd> & so on": 1}, phase="held"),
        before_parts=31,
        watchdog=2,
        candidates_per_s=270 * rate,
        moments=[
            Moment(at_s=0, requests=5, p50_ms=20.0, p99_ms=70.0, failed=0),
            Moment(at_s=1, requests=0, p50_ms=None, p99_ms=None, failed=0),
            Moment(at_s=2, requests=5, p50_ms=25.0, p99_ms=90.0, failed=1),
        ],
        usage=[
            Usage(
                at_s=s,
                cores={"rank": 0.5 + s / 10, "tritonserver": 0.1},
                memory_mb={"rank": 300.0, "tritonserver": 50.0},
            )
            for s in (1.0, 2.0)
        ],
        models=[
            ModelTimes(
                model="rank", requests=100, executions=40, queue_ms=3.0, input_ms=0.5, compute_ms=12.0, output_ms=0.25
            )
        ],
        tiers=[
            TierShare(tier="standard", reason="short_history", requests=75),
            TierShare(tier="high", reason="worthwhile", requests=25),
        ],
        fills=[TileFill(tier="standard", candidates=900, slots=1000)],
        cost=None if core_s is None else Cost(core_s=core_s, requests=1000, candidates=270_000),
    )
    return Contender(
        name=name,
        what=f"the model of {name}",
        steps=[
            window(rate / 2, 20.0, True),
            window(rate, 70.0, True),
            held.window,
            window(rate * 1.1, 90.0, True),
            window(rate * 1.1, 300.0, False, {LATE: 7}, phase="held"),
            window(rate * 1.3, 400.0, False, {GIVEN_UP: 30}),
            window(rate * 1.3, 500.0, False, {GIVEN_UP: 40}),
        ],
        held=held,
        checks=[Check(what="requests answered", client=1000, server=1010, watchdog=3, total=1000)],
        not_measured=["this <thing>"],
    )


def report(*contenders: Contender, release: str = "0123456789ab") -> LoadReport:
    return LoadReport(
        command="triton-ads loadtest --naive",
        began=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        seconds=180.0,
        deadline_ms=100.0,
        in_time=0.99,
        recipe="tiny",
        release=release,
        tier="",
        traffic="Poisson & Zipf",
        machine={"processor": "any", "cores": 2, "triton": "2.51.0"},
        contenders=list(contenders),
    )
