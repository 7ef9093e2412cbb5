"""A load test as one HTML file that needs nothing else."""

from collections.abc import Callable

from triton_ads.charts.bars import StackedBars
from triton_ads.charts.lines import Line, LineChart
from triton_ads.charts.svg import COLOURS
from triton_ads.loadtest import html
from triton_ads.loadtest.figures import (
    COST_TARGET,
    STEP_HEAD,
    cost_ratio,
    costs,
    counted,
    failed_holds,
    number,
    rated,
    step_row,
    too_short,
)
from triton_ads.loadtest.report import Contender, Held, LoadReport, Window

_PERCENTILES = (("p50", COLOURS[2]), ("p95", COLOURS[4]), ("p99", COLOURS[1]))
_PARTS = ("queue", "input", "compute", "output")


def page(report: LoadReport) -> str:
    """The page's text."""
    title = f"Load test: {report.recipe}, release {report.release}"
    body = [
        html.heading(title, 1),
        html.paragraph(f"{report.began:%Y-%m-%d %H:%M} UTC, {report.seconds:.0f} s: {report.command}", "quiet"),
        html.paragraph(
            f"A rate holds when {100 * report.in_time:g} % of the requests are answered within "
            f"{report.deadline_ms:g} ms. Rates rise in short steps; the highest that holds is then held for the rest "
            "of the time, and lowered where it fails. The rated load is the one that held to the end; a higher rate "
            "may have held for a step. Requests are due when they are due, whatever the server does (open loop), and "
            "their times count from then."
        ),
        *(_facts(contender) for contender in report.contenders),
        *_cost(report),
    ]
    for contender in report.contenders:
        body += [html.heading(f"{contender.name}: {contender.what}"), *_contender(contender, report.deadline_ms)]
    body += _agreement(report)
    body += _setting(report)
    return html.document(title, body)


def _facts(contender: Contender) -> str:
    held = contender.held
    failed = "".join(html.paragraph(f"{text}.") for text in failed_holds(contender))
    if held is None:
        return html.paragraph(f"{rated(contender)}.", "bad") + failed
    w, short = held.window, too_short(contender)
    shown = html.paragraph(f"{contender.name}, rated load, held for {w.seconds:.0f} s:") + html.facts(
        [
            (f"{w.offered:.0f}/s", "requests"),
            (f"{held.candidates_per_s:,.0f}/s", "ads ranked"),
            (f"{w.p50_ms:.1f} / {w.p95_ms:.1f} / {w.p99_ms:.1f} ms", "p50 / p95 / p99"),
            (f"{w.timeouts:.3%}", "timeouts"),
            *((number(value), name) for name, value in costs(held)[:1]),
        ]
    )
    return shown + (html.paragraph(f"{short}.", "bad") if short else "") + failed


def _cost(report: LoadReport) -> list[str]:
    found = [(contender.name, dict(costs(contender.held))) for contender in report.contenders if contender.held]
    found = [(name, cost) for name, cost in found if cost]
    if not found:
        return []
    ratio = cost_ratio(report)
    names = list(found[0][1])
    rows = [[name, *(number(cost[name]) for _, cost in found)] for name in names]
    if ratio is not None:
        rows = [[*row, f"{found[0][1][row[0]] / found[1][1][row[0]]:.3f}"] for row in rows]
    parts = [
        html.heading("What it costs"),
        html.table(
            ["at the rated load", *(name for name, _ in found), *(["ratio"] if ratio is not None else [])], rows
        ),
        html.paragraph(
            "Processor time of all processes of the server, its idle time and refused requests included; the load "
            "generator is not. Only what was answered well counts as ranked.",
            "quiet",
        ),
    ]
    if len(report.contenders) > 1:
        parts.append(html.charts([_beside(report).document()]))
    if ratio is not None:
        verdict = "at most" if ratio <= COST_TARGET else "more than"
        parts.append(
            html.paragraph(
                f"A ranked ad takes {ratio:.0%} of the processor time that the naive model takes for it, {verdict} the "
                f"target of {COST_TARGET:.0%}."
            )
        )
    return parts


def _beside(report: LoadReport) -> LineChart:
    lines = [
        Line(f"{contender.name}, p99", [(w.offered, w.p99_ms) for w in contender.curve], COLOURS[i])
        for i, contender in enumerate(report.contenders)
    ]
    marks = [(c.held.window.offered, f"rated {c.held.window.offered:.0f}/s") for c in report.contenders if c.held]
    level = [(report.deadline_ms, f"deadline {report.deadline_ms:g} ms")]
    return LineChart(
        "Both under the same load",
        "requests offered a second",
        "ms, logarithmic",
        lines,
        level,
        marks,
        logarithmic=True,
    )


def _contender(contender: Contender, deadline_ms: float) -> list[str]:
    held = contender.held
    lines = [
        Line(name, [(w.offered, getattr(w, f"{name}_ms")) for w in contender.curve], colour)
        for name, colour in _PERCENTILES
    ]
    answered = Line("answered", [(w.offered, w.answered) for w in contender.curve], COLOURS[0])
    due = Line("due", [(w.offered, w.due) for w in contender.curve], "#999", dots=False)
    marks = [(held.window.offered, f"rated {held.window.offered:.0f}/s")] if held else []
    levels = [(deadline_ms, f"deadline {deadline_ms:g} ms")]
    drawn = [
        LineChart(
            "Time of an answer",
            "requests offered a second",
            "ms, logarithmic",
            [*lines, *_held_dots(contender, "p99", lambda w: w.p99_ms)],
            levels,
            marks,
            logarithmic=True,
        ),
        LineChart(
            "Throughput",
            "requests offered a second",
            "requests a second",
            [due, answered, *_held_dots(contender, "answered", lambda w: w.answered)],
            (),
            marks,
        ),
    ]
    parts = [html.charts([chart.document() for chart in drawn])]
    parts.append(html.table(STEP_HEAD, map(step_row, contender.steps), texts=[1, 10]))
    if held is not None:
        parts += [html.heading("The rated load, held", 3), *_held(held, deadline_ms)]
    parts += [html.paragraph(f"Not measured: {text}.", "quiet") for text in contender.not_measured]
    return parts


def _held_dots(contender: Contender, name: str, value: Callable[[Window], float]) -> list[Line]:
    """Dots, one a window, of the rates that were held, and of the parts that failed."""
    found = []
    for text, holds, colour in (("held", True, "#222"), ("held, failed", False, "#a40000")):
        windows = [w for w in contender.steps if w.phase == "held" and w.holds is holds]
        points = [point for w in windows for point in ((w.offered, value(w)), (w.offered, None))]
        if points:
            found.append(Line(f"{name}, {text}", points, colour))
    return found


def _held(held: Held, deadline_ms: float) -> list[str]:
    second = "second"
    times = [
        Line("p50 of each second", [(m.at_s, m.p50_ms) for m in held.moments], COLOURS[2], dots=False),
        Line("p99 of each second", [(m.at_s, m.p99_ms) for m in held.moments], COLOURS[1], dots=False),
    ]
    level = [(deadline_ms, f"deadline {deadline_ms:g} ms")]
    drawn = [LineChart("Time of an answer", second, "ms, logarithmic", times, level, logarithmic=True).document()]
    if held.usage:
        names = sorted(
            {name for u in held.usage for name in u.cores}, key=lambda n: -sum(u.cores.get(n, 0) for u in held.usage)
        )
        for title, unit, of in (
            ("Processor", "cores in use", lambda u: u.cores),
            ("Memory", "MB allocated", lambda u: u.memory_mb),
        ):
            lines = [
                Line(name, [(u.at_s, of(u).get(name)) for u in held.usage], COLOURS[i % len(COLOURS)], dots=False)
                for i, name in enumerate(names)
            ]
            lines.append(Line("all", [(u.at_s, sum(of(u).values())) for u in held.usage], "#333", dots=False))
            drawn.append(LineChart(title, second, unit, lines).document())
    if held.models:
        rows = [(m.model, (m.queue_ms, m.input_ms, m.compute_ms, m.output_ms)) for m in held.models]
        drawn.append(StackedBars("Where the server's time goes, mean of a request", _PARTS, rows, "ms").document())
    tables = []
    if held.models:
        tables.append(
            html.table(
                ("model", "requests", "executions", "requests per execution"),
                [
                    (m.model, f"{m.requests:,}", f"{m.executions:,}", f"{m.requests_per_execution:.2f}")
                    for m in held.models
                ],
            )
        )
    if held.tiers:
        total = sum(share.requests for share in held.tiers)
        tables.append(
            html.table(
                ("tier", "why", "requests", "share"),
                [(t.tier, t.reason, f"{t.requests:,}", f"{t.requests / total:.1%}") for t in held.tiers],
                texts=[1],
            )
        )
    if held.fills:
        tables.append(
            html.table(
                ("tiles of tier", "candidates", "places", "fill"),
                [(f.tier, f"{f.candidates:,}", f"{f.slots:,}", f"{f.fill:.1%}") for f in held.fills],
            )
        )
    return [html.charts(drawn), html.charts(tables), *([html.paragraph(counted(held), "quiet")] if tables else [])]


def _agreement(report: LoadReport) -> list[str]:
    rows = [
        (contender.name, check.what, f"{check.client:,.0f}", f"{check.server:,.0f}", str(check.watchdog),
         f"{check.difference:.2%}", "yes" if check.agrees else "NO")
        for contender in report.contenders
        for check in contender.checks
    ]  # fmt: skip
    return [
        html.heading("Client and server count the same"),
        html.paragraph(
            "All phases, the warm-up included; up to 2 % apart agree. What the server's watchdog asked meanwhile is "
            "taken off what the server counted.",
            "quiet",
        ),
        html.table(("", "count", "client", "server", "watchdog", "difference", "agree"), rows, texts=[1]),
    ]


def _setting(report: LoadReport) -> list[str]:
    rows = [
        ("recipe", report.recipe),
        ("release", report.release),
        ("tier", f"{report.tier}, insisted on" if report.tier else "chosen by the router"),
        ("traffic", report.traffic),
        *((name, str(value)) for name, value in report.machine.items()),
    ]
    return [html.heading("Setting"), html.table(("", ""), rows, texts=[1])]
