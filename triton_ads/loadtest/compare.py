"""Two load tests beside each other, with ratios."""

import math

from rich.console import Console
from rich.table import Table

from triton_ads.charts.lines import Line, LineChart
from triton_ads.charts.svg import COLOURS
from triton_ads.loadtest import html
from triton_ads.loadtest.figures import held_figures, number, too_short
from triton_ads.loadtest.report import Contender, LoadReport

_HEAD = ("", "first", "second", "second / first")


def compared(first: Contender, second: Contender) -> list[tuple[str, float, float, float]]:
    """Name, both values and their ratio, of every figure of the rated loads; NaN where a run does not have it."""
    ours, theirs = (dict(held_figures(c.held)) if c.held else {} for c in (first, second))
    rows = []
    for name in dict.fromkeys([*ours, *theirs]):
        a, b = ours.get(name, math.nan), theirs.get(name, math.nan)
        rows.append((name, a, b, b / a if a else math.nan))
    return rows


def differences(first: LoadReport, second: LoadReport) -> list[str]:
    """What the two runs do not have in common; figures are comparable as far as that does not matter."""
    pairs = [
        ("release", first.release, second.release),
        ("recipe", first.recipe, second.recipe),
        ("tier", first.tier or "the router's", second.tier or "the router's"),
        ("deadline", f"{first.deadline_ms:g} ms", f"{second.deadline_ms:g} ms"),
        ("in time", f"{first.in_time:.2%}", f"{second.in_time:.2%}"),
        ("traffic", first.traffic, second.traffic),
        *(
            (name, str(first.machine.get(name)), str(second.machine.get(name)))
            for name in dict.fromkeys([*first.machine, *second.machine])
        ),
    ]
    return [f"{name}: {a} / {b}" for name, a, b in pairs if a != b]


def compare_table(first: LoadReport, second: LoadReport, console: Console) -> None:
    """Print a table for each contender that both have."""
    for ours, theirs in _pairs(first, second):
        table = Table(*_HEAD, title=f"{ours.name}, rated load")
        for column in table.columns[1:]:
            column.justify = "right"
        for row in compared(ours, theirs):
            table.add_row(*_texts(*row))
        console.print(table)
    for line in _cautions(first, second):
        console.print(line, highlight=False)
    for line in differences(first, second):
        console.print(f"differs: {line}", highlight=False)


def compare_page(first: LoadReport, second: LoadReport, first_name: str, second_name: str) -> str:
    """The same as a page, with the curves of both."""
    body = [
        html.heading("Two load tests", 1),
        html.paragraph(f"first: {first_name}, {first.began:%Y-%m-%d %H:%M} UTC, release {first.release}"),
        html.paragraph(f"second: {second_name}, {second.began:%Y-%m-%d %H:%M} UTC, release {second.release}"),
    ]
    for ours, theirs in _pairs(first, second):
        lines = [
            Line(f"{which}, {q}", [(w.offered, getattr(w, f"{q}_ms")) for w in contender.curve], COLOURS[i])
            for i, (which, contender, q) in enumerate(
                (which, contender, q)
                for which, contender in (("first", ours), ("second", theirs))
                for q in ("p50", "p99")
            )
        ]
        level = [(first.deadline_ms, f"deadline {first.deadline_ms:g} ms")]
        chart = LineChart(
            "Time of an answer", "requests offered a second", "ms, logarithmic", lines, level, logarithmic=True
        )
        body += [
            html.heading(ours.name),
            html.charts([chart.document()]),
            html.table(_HEAD, [_texts(*row) for row in compared(ours, theirs)]),
        ]
    body += [html.paragraph(line, "bad") for line in _cautions(first, second)]
    found = differences(first, second)
    body.append(html.heading("What differs"))
    body += [html.paragraph(line) for line in found] or [
        html.paragraph("Nothing that is known: the setting is the same.")
    ]
    return html.document("Two load tests", body)


def _cautions(first: LoadReport, second: LoadReport) -> list[str]:
    """The rated loads that rest on too little."""
    return [
        f"{which}, {contender.name}: {text}"
        for which, report in (("first", first), ("second", second))
        for contender in report.contenders
        if (text := too_short(contender))
    ]


def _pairs(first: LoadReport, second: LoadReport) -> list[tuple[Contender, Contender]]:
    theirs = {contender.name: contender for contender in second.contenders}
    return [(contender, theirs[contender.name]) for contender in first.contenders if contender.name in theirs]


def _texts(name: str, a: float, b: float, ratio: float) -> list[str]:
    return [
        name,
        number(a),
        number(b),
        "-" if math.isnan(ratio) else f"{ratio:.3f}",
    ]
