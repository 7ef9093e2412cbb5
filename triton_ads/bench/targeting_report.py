"""Rows and claims of benchmark `targeting`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from triton_ads.bench.report import SPREAD, Report, Row
from triton_ads.bench.targeting_models import DENSE, INT4, SPARSE
from triton_ads.bench.timing import Timings
from triton_ads.targeting.quality import Measures

VERIFIED = f"{SPARSE} + verification"
#: Recall of the paper, of its own traffic (beam 20, identifiers of 6 tokens on average, ERNIE 1.5B).
PAPER = {DENSE: 0.084, INT4: 0.083, SPARSE: 0.083, VERIFIED: 0.081}


@dataclass
class Figures:
    """What was measured: of every contender its measures for each seed, of baselines once, times of each seed."""

    of_seed: dict[str, list[Measures]] = field(default_factory=dict)
    of_baseline: dict[str, Measures] = field(default_factory=dict)
    timings: list[Timings] = field(default_factory=list)

    def all(self, contender: str, measure: str) -> list[float]:
        """One for each seed."""
        return [measures[measure] for measures in self.of_seed[contender]]

    def share_of_dense(self, contender: str) -> list[float]:
        """Recall at 20 as a share of the dense generator's of the same seed."""
        pairs = zip(self.all(contender, "recall@20"), self.all(DENSE, "recall@20"), strict=True)
        return [own / dense for own, dense in pairs]


def add_rows(report: Report, figures: Figures, burst: int) -> None:
    """Args: burst: requests of a timed turn."""
    for name in figures.of_seed:
        seeds = len(figures.of_seed[name])
        for measure in figures.of_seed[name][0]:
            values = figures.all(name, measure)
            report.rows.append(Row(name, "mean of seeds", measure, float(np.mean(values)), "", seeds))
        _spread(report, name, "recall@20", figures.all(name, "recall@20"))
        _spread(report, name, "recall@20 / dense", figures.share_of_dense(name))
        if name in PAPER:
            report.rows.append(Row(name, "the paper", "recall", PAPER[name], "", 1))
        ms = np.concatenate([timings.ms[name] for timings in figures.timings]) / burst
        report.rows.append(Row(name, "a request", "median", float(np.median(ms)), "ms", len(ms)))
        for metric, q in zip(SPREAD, (0.1, 0.9), strict=True):
            report.rows.append(Row(name, "a request", metric, float(np.quantile(ms, q)), "ms", len(ms)))
        ratio = float(np.median([timings.ratio(DENSE, name) for timings in figures.timings]))
        report.rows.append(Row(name, "a request", f"times as fast as {DENSE}", ratio, "", len(figures.timings)))
    for name, measures in figures.of_baseline.items():
        for measure, value in measures.items():
            report.rows.append(Row(name, "baseline", measure, value, "", 1))


def _spread(report: Report, name: str, measure: str, values: Sequence[float]) -> None:
    for which, value in (("worst seed", min(values)), ("best seed", max(values))):
        report.rows.append(Row(name, which, measure, value, "", len(values)))


def add_claims(report: Report, figures: Figures) -> None:
    """Of every step the paper's own loss of recall is allowed."""
    for name in (INT4, SPARSE, VERIFIED):
        share = float(np.mean(figures.share_of_dense(name)))
        report.claim(f"recall@20: {name} / {DENSE}, mean of seeds", share, ">=", round(PAPER[name] / PAPER[DENSE], 3))
    faster = float(np.median([timings.ratio(DENSE, VERIFIED) for timings in figures.timings]))
    report.claim(f"time a request: {DENSE} / {VERIFIED}", faster, ">=", 1.0)
