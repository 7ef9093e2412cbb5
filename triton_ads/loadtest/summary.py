"""A load test as tables in the terminal."""

from rich.console import Console
from rich.table import Table

from triton_ads.loadtest.figures import STEP_HEAD, cost_ratio, costs, failed_holds, number, rated, step_row, too_short
from triton_ads.loadtest.report import LoadReport


def summary(report: LoadReport, console: Console) -> None:
    """Print what was found, what it cost, and whether client and server agree."""
    for contender in report.contenders:
        table = Table(*STEP_HEAD, title=f"{contender.name}: {contender.what}")
        for window in contender.steps:
            table.add_row(*step_row(window))
        console.print(table)
    checks = Table("", "count", "client", "server", "difference", "agree", title="client and server")
    for contender in report.contenders:
        for check in contender.checks:
            agree = "yes" if check.agrees else "NO"
            counts = f"{check.client:.0f}", f"{check.server:.0f}", f"{check.difference:.2%}"
            checks.add_row(contender.name, check.what, *counts, agree)
    console.print(checks)
    for contender in report.contenders:
        console.print(f"rated load of {rated(contender)}", highlight=False)
        for text in (*failed_holds(contender), too_short(contender)):
            if text:
                console.print(f"  {text}", highlight=False)
        for name, value in costs(contender.held) if contender.held else ():
            console.print(f"  {name}: {number(value)}", highlight=False)
        for text in contender.not_measured:
            console.print(f"  not measured: {text}", highlight=False)
    ratio = cost_ratio(report)
    if ratio is not None:
        console.print(f"processor time of a ranked ad, against the naive model: {ratio - 1:+.1%}", highlight=False)
