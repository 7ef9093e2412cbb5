"""The figures of a report as rows of text: what the page, the table in the terminal and the comparison all show."""

import math

from triton_ads.loadtest.load import WARM_UP_S
from triton_ads.loadtest.report import Contender, Held, LoadReport, Window
from triton_ads.loadtest.schedule import Schedule

#: Machine costs of a served ad must go down by as much: 15 % fewer core-hours than the naive model's.
COST_TARGET = 0.85

STEP_HEAD = (
    "offered/s", "phase", "for s", "due", "answered", "p50 ms", "p95 ms", "p99 ms", "in time", "holds",
    "what went wrong",
)  # fmt: skip

#: A rated load of less is chance: one stall of the machine decides about it.
RELIABLE_REQUESTS = 1000
RELIABLE_S = 20.0
_LONGER = (180, 600, 3600)  # durations that are proposed


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
        window.phase,
        f"{window.seconds:.1f}",
        f"{window.requests:,}",
        f"{window.answered_well:,}",
        f"{window.p50_ms:.1f}",
        f"{window.p95_ms:.1f}",
        f"{window.p99_ms:.1f}",
        f"{window.in_time:.2%}",
        "yes" if window.holds else "NO",
        problems(window),
    ]


def problems(window: Window) -> str:
    """What went wrong in a window; empty where nothing did."""
    found = [f"{count} {cause}" for cause, count in window.causes.items()]
    if not window.kept_up:
        found.append(f"fell behind: {window.answered * window.seconds:.0f} answered within {window.seconds:.1f} s")
    return "; ".join(found)


def too_short(contender: Contender) -> str:
    """Why the rated load is not one to rely on, and what to do; empty where it is, or there is none."""
    if contender.held is None:
        return ""
    w = contender.held.window
    if w.requests >= RELIABLE_REQUESTS and w.seconds >= RELIABLE_S:
        return ""
    rising = [step.offered for step in contender.steps if step.phase == "rising"]
    failed = [part.offered for part in contender.failed_holds]
    left = {duration: Schedule.of(duration).left_for(w.offered, rising, failed) for duration in _LONGER}
    enough = [d for d, s in left.items() if s >= RELIABLE_S and s * w.offered >= RELIABLE_REQUESTS and s > w.seconds]
    advice = f"; --duration {enough[0]} holds it for about {left[enough[0]]:.0f} s" if enough else ""
    return f"too short to rely on: {w.requests:,} requests in {w.seconds:.1f} s{advice}"


def failed_holds(contender: Contender) -> list[str]:
    """A sentence for every rate that failed when it was held."""
    return [
        f"{w.offered:.1f} requests/s failed when held: {w.in_time:.2%} of {w.requests:,} in time in {w.seconds:.1f} s"
        for w in contender.failed_holds
    ]


def counted(held: Held) -> str:
    """What the server's counts of the rated load are of, beside the window."""
    return (
        f"The server counts from before the load to after it: the {held.window.requests:,} requests of the window, as "
        f"far as they were sent; {held.before_parts:,} that were sent in the {WARM_UP_S:g} s before the window of each "
        f"part, which the client does not judge; and {held.watchdog:,} of the server's own watchdog."
    )


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
