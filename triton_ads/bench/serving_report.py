"""The report of `bench serving`: one line a load, with rate and percentiles beside each other."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table

from triton_ads.bench.report import Report, Row
from triton_ads.bench.serving_contender import FASTAPI, NAIVE, OURS, UNMIXED
from triton_ads.loadtest.load import Outcome

CLAIMED = 32  # clients at which contenders are compared
#: Contender -> how many times its requests a second ours answers, at least; and whether at no worse p99.
CLAIMS = {NAIVE: (2.5, True), FASTAPI: (4.0, True), UNMIXED: (1.3, False)}
_METRICS = ("requests", "p50", "p95", "p99", "core", "errors")


@dataclass
class ServingReport(Report):
    """Outcomes by contender, mix and size of the load, a list with one a turn; `conclude` makes rows and claims."""

    deadline_ms: float = 100.0
    closed: dict[tuple[str, str, int], list[Outcome]] = field(default_factory=lambda: defaultdict(list))
    open: dict[tuple[str, str, float], list[Outcome]] = field(default_factory=lambda: defaultdict(list))

    def conclude(self) -> None:
        """Rows of all outcomes, and the claims for each mix at 32 clients. Figures are medians over the turns."""
        for (contender, mix, clients), outcomes in self.closed.items():
            self._add(f"{mix}, {clients} clients", contender, outcomes)
        for (contender, mix, rate), outcomes in self.open.items():
            self._add(f"{mix}, {rate:.1f}/s offered", contender, outcomes)
        for contender, mix in dict.fromkeys((contender, mix) for contender, mix, _ in self.open):
            rates = [r for c, m, r in self.open if (c, m) == (contender, mix) and self._within(c, m, r)]
            name = f"{mix}, open loop"
            best = max(rates, default=0.0)
            turns = len(self.closed[contender, mix, CLAIMED])
            self.rows.append(Row(name, contender, f"rate with p99 <= {self.deadline_ms:g} ms", best, "1/s", turns))
        busiest = max(o.busy for outcomes in [*self.closed.values(), *self.open.values()] for o in outcomes)
        self.rows.append(Row("all loads", "load generator", "busy at most", busiest, "of its core", 1))
        for mix in dict.fromkeys(mix for _, mix, _ in self.closed):
            for contender, (times, at_no_worse_p99) in CLAIMS.items():
                if (contender, mix, CLAIMED) in self.closed:
                    self._claim(mix, contender, times, at_no_worse_p99)

    def print(self, console: Console) -> None:
        """A line a load, in place of a line a figure."""
        lines: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
        for row in self.rows:
            lines[row.name, row.contender][row.metric] = row
        table = Table(
            "load", "contender", "requests/s", "p50 ms", "p95 ms", "p99 ms", "core ms", "errors", "n", title=self.title
        )
        for (name, contender), found in sorted(lines.items(), key=lambda line: _order(line[0][0])):
            if "p99" in found:
                values = [f"{found[metric].value:.4g}" for metric in _METRICS]
                table.add_row(name, contender, *values, str(found["p99"].n))
        console.print(table)
        rest = [row for row in self.rows if row.metric not in _METRICS]
        Report(self.title, rest, self.claims, self.setting).print(console)

    def _add(self, name: str, contender: str, outcomes: list[Outcome]) -> None:
        turns = len(outcomes)
        rate = float(np.median([o.rate for o in outcomes]))
        self.rows.append(Row(name, contender, "requests", rate, "1/s", turns))
        for metric, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            value = float(np.median([o.percentile(q) for o in outcomes]))
            self.rows.append(Row(name, contender, metric, value, "ms", turns))
        core = float(np.median([o.core_ms for o in outcomes]))
        self.rows.append(Row(name, contender, "core", core, "ms of the server's core for one request", turns))
        self.rows.append(Row(name, contender, "errors", float(sum(o.errors for o in outcomes)), "requests", turns))

    def _within(self, contender: str, mix: str, rate: float) -> bool:
        return float(np.median([o.percentile(0.99) for o in self.open[contender, mix, rate]])) <= self.deadline_ms

    def _claim(self, mix: str, contender: str, times: float, at_no_worse_p99: bool) -> None:
        ours, theirs = self.closed[OURS, mix, CLAIMED], self.closed[contender, mix, CLAIMED]
        where = f"{mix}, {CLAIMED} clients"
        faster = float(np.median([o.rate / t.rate for o, t in zip(ours, theirs, strict=True)]))
        self.claim(f"{where}: requests/s of ours / {contender}", faster, ">=", times)
        if at_no_worse_p99:
            slower = float(
                np.median([o.percentile(0.99) / t.percentile(0.99) for o, t in zip(ours, theirs, strict=True)])
            )
            self.claim(f"{where}: p99 of ours / {contender}", slower, "<=", 1.0)


def _order(name: str) -> tuple[str, bool, float]:
    """Closed loops by clients, then open loops by rate; the contenders of one load beside each other."""
    mix, _, load = name.rpartition(", ")
    size = load.split()[0].removesuffix("/s")
    return mix, load.endswith("offered"), float(size) if size.replace(".", "").isdigit() else 0.0
