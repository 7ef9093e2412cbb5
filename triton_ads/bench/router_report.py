"""The report of `bench router`: curves by contender and seed, and the claims."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from triton_ads.bench.report import Report, Row

LEARNED, RANDOM, LENGTH = "learned", "random", "length"
#: The budget at which routers are compared in words: half of the requests.
HALF = 0.5


@dataclass
class RouterReport(Report):
    """`seeds`: of each build contender -> points of its curve, as `triton_ads.training.router` writes them.

    At no budget everything is the standard tier's, at a full one the high tier's, whoever chooses.
    """

    labels: tuple[str, ...] = ()
    seeds: list[dict[str, list[dict[str, Any]]]] = field(default_factory=list)

    def add(self, curves: dict[str, list[dict[str, Any]]]) -> None:
        """The curves of one seed."""
        self.seeds.append(curves)

    @property
    def contenders(self) -> list[str]:
        return list(self.seeds[0])

    @property
    def shares(self) -> list[float]:
        return [point["share"] for point in self.seeds[0][RANDOM]]

    @property
    def flops(self) -> list[float]:
        """Mean FLOPs of a request at each budget."""
        return [point["flops"] for point in self.seeds[0][RANDOM]]

    def auc(self, contender: str, label: int = 0) -> NDArray[np.float64]:
        """[seeds, budgets]."""
        return np.array([[point["auc"][label] for point in seed[contender]] for seed in self.seeds])

    def conclude(self) -> None:
        """Make rows and claims of the curves."""
        n = len(self.seeds)
        self.setting |= {"seeds": n}
        for at, share in enumerate(self.shares):
            name = f"{share:.0%} high, {self.flops[at] / 1e6:.0f} MFLOP"
            for contender in self.contenders:
                for k, label in enumerate(self.labels):
                    values = self.auc(contender, k)[:, at]
                    for of, value in (("mean", values.mean()), ("least", values.min()), ("most", values.max())):
                        self.rows.append(Row(name, contender, f"AUC {label}, {of} of seeds", float(value), "", n))
        label, inner = self.labels[0], slice(1, -1)  # both ends are the same for all
        beyond = self.auc(LEARNED)[:, inner] - self.auc(RANDOM)[:, inner]
        self.claim(
            f"learned - random, AUC {label}: least of all budgets, mean of seeds", least(beyond.mean(0)), ">=", 0
        )
        self.claim(f"learned - random, AUC {label}: least of all budgets and seeds", least(beyond), ">=", 0)
        if LENGTH in self.contenders:
            beyond = self.auc(LEARNED)[:, inner] - self.auc(LENGTH)[:, inner]
            self.claim(f"learned - length, AUC {label}: mean of all budgets and seeds", float(beyond.mean()), ">=", 0)

    def kept(self, contender: str) -> NDArray[np.float64]:
        """[seeds]: of what the high tier adds to the AUC, the share that is left when half the requests get it."""
        curve = self.auc(contender)
        gain = curve[:, -1] - curve[:, 0]
        return np.divide(
            curve[:, self.shares.index(HALF)] - curve[:, 0], gain, out=np.zeros_like(gain), where=gain != 0
        )

    def print(self, console: Console) -> None:
        label = self.labels[0]
        table = Table(
            "share high", "mean MFLOP", *self.contenders, title=f"{self.title}; AUC {label}, mean (least..most)"
        )
        for at, share in enumerate(self.shares):
            cells = []
            for contender in self.contenders:
                values = self.auc(contender)[:, at]
                cells.append(f"{values.mean():.4f} ({values.min():.4f}..{values.max():.4f})")
            table.add_row(f"{share:.0%}", f"{self.flops[at] / 1e6:.1f}", *cells)
        console.print(table)
        for contender in self.contenders:
            kept = self.kept(contender)
            console.print(
                f"{contender}: {kept.mean():.0%} of the high tier's gain for half of its requests", highlight=False
            )
        self.print_claims(console)


def least(values: NDArray[np.float64]) -> float:
    return float(values.min())
