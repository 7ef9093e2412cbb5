"""The figures of a report as rows of text: what the page, the table in the terminal and the comparison all show."""

import math

from triton_ads.loadtest.report import Contender, Held, LoadReport, Window

#: Machine costs of a served ad must go down by as much: 15 % fewer core-hours than the naive model's.
COST_TARGET = 0.85

STEP_HEAD = ("offered/s", "for s", "answered/s", "p50 ms", "p95 ms", "p99 ms", "in time", "holds", "what went wrong")


def number(value: float) -> str:
    """
    >>> number(26_853.2), number(0.010351), number(float("nan"))
    ('26,853', '0.01035', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def step_row(window: Window) -> list[str]:
    return [
        f"{window.offered:.1f}",
        f"{window.seconds:.0f}",
        f"{window.answered:.1f}",
        f"{window.p50_ms:.1f}",
        f"{window.p95_ms:.1f}",
        f"{window.p99_ms:.1f}",
        f"{window.in_time:.2%}",
        "yes" if window.holds else "NO",
        "; ".join(f"{count} {cause}" for cause, count in window.causes.items()),
    ]


def rated(contender: Contender) -> str:
    """The result in one sentence."""
    held = contender.held
    if held is None:
        return f"{contender.name}: no rate held"
    w = held.window
    return (
        f"{contender.name}: {w.offered:.0f} requests/s ({held.candidates_per_s:,.0f} ads/s) "
        f"held for {w.seconds:.0f} s, p50 {w.p50_ms:.1f}, p95 {w.p95_ms:.1f}, p99 {w.p99_ms:.1f} ms, "
        f"timeouts {w.timeouts:.3%}"
    )


def costs(held: Held) -> list[tuple[str, float]]:
    """What the rated load cost; nothing where processor time could not be seen."""
    cost = held.cost
    if cost is None:
        return []
    return [
        ("ranked candidates per core-second", cost.candidates_per_core_s),
        ("core-hours per million ranked candidates", cost.core_h_per_million_candidates),
        ("core-hours per million requests", cost.core_h_per_million_requests),
    ]


def cost_ratio(report: LoadReport) -> float | None:
    """Core-hours of the first contender for the same number of ranked candidates, as a share of the second's."""
    found = [c.held.cost.core_h_per_million_candidates for c in report.contenders if c.held and c.held.cost]
    return found[0] / found[1] if len(found) == 2 else None


def held_figures(held: Held) -> list[tuple[str, float]]:
    """Name and value of everything of which two runs can have a ratio."""
    w = held.window
    most = max((sum(u.memory_mb.values()) for u in held.usage), default=float("nan"))
    cores = [sum(u.cores.values()) for u in held.usage]
    return [
        ("rated load, requests/s", w.offered),
        ("rated load, ads/s", held.candidates_per_s),
        ("p50, ms", w.p50_ms),
        ("p95, ms", w.p95_ms),
        ("p99, ms", w.p99_ms),
        ("timeouts, % of the requests", 100 * w.timeouts),
        *((f"tile fill, tier {fill.tier}", fill.fill) for fill in held.fills),
        *((f"requests per execution, {m.model}", m.requests_per_execution) for m in held.models),
        ("cores in use, mean", sum(cores) / len(cores) if cores else float("nan")),
        ("memory at most, MB", most),
        *costs(held),
    ]
