"""What every benchmark gives: a table to read and JSON to keep.

{machine, setting, rows: [{name, contender, metric, value, unit, n}], claims: [{claim, target, value, holds}]}
"""

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from triton_ads.bench.timing import Timings

_PACKAGES = ("numpy", "onnxruntime", "torch", "tritonclient", "nvidia-pytriton")


#: Metrics that belong to the median of the same case and contender.
SPREAD = ("10 % quantile", "90 % quantile")


@dataclass(frozen=True)
class Row:
    """One figure: `metric` of `contender` in the case `name`, a median over `n` runs unless the metric says else."""

    name: str
    contender: str
    metric: str
    value: float
    unit: str
    n: int


@dataclass(frozen=True)
class Claim:
    """A figure that the project promises, and whether this run shows it."""

    claim: str
    target: float
    value: float
    holds: bool


@dataclass
class Report:
    title: str
    rows: list[Row] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    setting: dict[str, str | int | float] = field(default_factory=dict)  # how this run was made, beside the machine

    def claim(self, text: str, value: float, bound: Literal[">=", "<="], target: float) -> None:
        """Record a claim; it holds when `value` keeps the bound, unrounded."""
        holds = value >= target if bound == ">=" else value <= target
        self.claims.append(Claim(f"{text} {bound} {target:g}", target, value, bool(holds)))

    def add_timings(self, name: str, timings: Timings) -> None:
        """Median and spread of every contender, in milliseconds."""
        for contender in timings.ms:
            self.rows.append(Row(name, contender, "median", timings.median(contender), "ms", timings.rounds))
            for metric, q in zip(SPREAD, (0.1, 0.9), strict=True):
                self.rows.append(Row(name, contender, metric, timings.quantile(contender, q), "ms", timings.rounds))

    def print(self, console: Console) -> None:
        """Two tables: figures, then claims. The quantiles of a median stand beside it."""
        spread = {(row.name, row.contender, row.metric): row.value for row in self.rows if row.metric in SPREAD}
        figures = Table("case", "contender", "metric", "value", "10 % - 90 %", "unit", "n", title=self.title)
        for row in self.rows:
            if row.metric in SPREAD:
                continue
            bounds = [spread.get((row.name, row.contender, metric)) for metric in SPREAD]
            between = " - ".join(f"{b:.4g}" for b in bounds if b is not None) if row.metric == "median" else ""
            figures.add_row(row.name, row.contender, row.metric, f"{row.value:.4g}", between, row.unit, str(row.n))
        console.print(figures)
        self.print_claims(console)

    def print_claims(self, console: Console) -> None:
        if self.claims:
            claims = Table("claim", "found", "holds", title="claims")
            for claim in self.claims:
                claims.add_row(claim.claim, f"{claim.value:.4g}", "yes" if claim.holds else "NO")
            console.print(claims)

    def save(self, path: Path) -> None:
        document = {
            "machine": machine(),
            "setting": self.setting,
            "rows": [asdict(row) for row in self.rows],
            "claims": [asdict(claim) for claim in self.claims],
        }
        path.write_text(json.dumps(document, indent=1) + "\n")


def machine() -> dict[str, str | int | float]:
    """Processor, cores, load and the versions that matter for a figure."""
    found: dict[str, str | int | float] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
