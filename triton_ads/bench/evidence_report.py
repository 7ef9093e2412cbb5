"""The report of `bench evidence`: scores by contender and seed, what parts are worth, and the claims."""

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from triton_ads.bench.evidence_contenders import (
    HIGH,
    LR,
    STANDARD,
    TWO_LAYERS,
    WITHOUT_EPNET,
    WITHOUT_JOURNEY,
    Contender,
)
from triton_ads.bench.report import Report, Row

#: Who know the world: all of it but the journey; all that can be seen; what nobody sees as well.
COLD, BEST, HIDDEN = "best without journeys", "best reachable", "hidden state known"
PARTS = ("all", "hard", "easy")
#: What is compared: text, with, without.
WORTH = (
    ("journeys, in the standard tier", STANDARD, Contender(STANDARD, WITHOUT_JOURNEY).name),
    ("journeys, in the high tier", HIGH, Contender(HIGH, WITHOUT_JOURNEY).name),
    ("EPNet, in the high tier", HIGH, Contender(HIGH, WITHOUT_EPNET).name),
    ("a second layer, in the high tier", Contender(HIGH, TWO_LAYERS).name, HIGH),
    ("the high tier over the standard one", HIGH, STANDARD),
)
#: Share of the way from LR to the best reachable AUC that the high tier should go.
GAP = 0.8


@dataclass(frozen=True)
class Score:
    auc: dict[str, float]  # of the first label, by kind of request
    deep_auc: float  # of the second label
    log_loss: float  # of the first label


@dataclass(frozen=True)
class Spread:
    """A figure over the seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def text(self) -> str:
        return f"{self.mean:.4f} ({min(self.values):.4f}..{max(self.values):.4f})"

    @property
    def signed(self) -> str:
        return f"{self.mean:+.4f} ({min(self.values):+.4f}..{max(self.values):+.4f})"


@dataclass
class EvidenceReport(Report):
    """`scores`: contender -> one score a seed, in the order of the seeds; `conclude` makes rows and claims of them."""

    scores: dict[str, list[Score]] = field(default_factory=dict)

    def add(self, contender: str, score: Score) -> None:
        self.scores.setdefault(contender, []).append(score)

    def figure(self, contender: str, of: Callable[[Score], float]) -> Spread:
        return Spread(tuple(of(score) for score in self.scores[contender]))

    def auc(self, contender: str, part: str = "all") -> Spread:
        return self.figure(contender, lambda score: score.auc[part])

    def gap(self, contender: str, part: str = "all") -> Spread:
        """Share of the way from LR to the best reachable AUC, seed by seed."""
        low, high, at = (self.auc(name, part).values for name in (LR, BEST, contender))
        return Spread(tuple((a - x) / (b - x) for a, x, b in zip(at, low, high, strict=True)))

    def worth(self, more: str, less: str, part: str = "all") -> Spread:
        """Difference of AUC, seed by seed."""
        pairs = zip(self.auc(more, part).values, self.auc(less, part).values, strict=True)
        return Spread(tuple(a - b for a, b in pairs))

    def conclude(self) -> None:
        for contender in self.scores:
            for part in PARTS:
                self._row(part, contender, "AUC cvr", self.auc(contender, part), "")
                self._row(part, contender, "way from LR to the best", self.gap(contender, part), "share")
            self._row("all", contender, "AUC dcvr", self.figure(contender, lambda score: score.deep_auc), "")
            self._row("all", contender, "log loss cvr", self.figure(contender, lambda score: score.log_loss), "nats")
        for text, more, less in WORTH:
            for part in PARTS:
                self._row(part, text, "worth, AUC cvr", self.worth(more, less, part), "")
        self._claim_all()

    def _row(self, part: str, contender: str, metric: str, spread: Spread, unit: str) -> None:
        """Mean, least and most over the seeds."""
        for suffix, value in (
            ("mean", spread.mean),
            ("least", min(spread.values)),
            ("most", max(spread.values)),
        ):
            self.rows.append(Row(f"{part} requests", contender, f"{metric}, {suffix}", value, unit, len(spread.values)))

    def _claim_all(self) -> None:
        """Each in every seed: the least of the differences."""
        for text, more, less in WORTH:
            self.claim(f"AUC by {text}, in every seed", min(self.worth(more, less).values), ">=", 0)
        text, more, less = WORTH[-1]
        self.claim(f"AUC by {text}, hard requests, in every seed", min(self.worth(more, less, "hard").values), ">=", 0)
        on_hard, on_easy = self.worth(more, less, "hard"), self.worth(more, less, "easy")
        difference = min(h - e for h, e in zip(on_hard.values, on_easy.values, strict=True))
        self.claim(f"AUC by {text}, hard less easy requests, in every seed", difference, ">=", 0)
        self.claim("way of the high tier from LR to the best reachable AUC, mean", self.gap(HIGH).mean, ">=", GAP)
        trained = [name for name in self.scores if name not in (COLD, BEST, HIDDEN)]
        above = max(max(self.worth(name, BEST).values) for name in trained)
        self.claim("AUC of anything trained above the best reachable, in any seed", above, "<=", 0)

    def print(self, console: Console) -> None:
        """A line a contender; mean (least..most) over the seeds."""
        seeds = len(self.scores[BEST])
        table = Table(
            "contender", *(f"AUC cvr, {part}" for part in PARTS), "AUC dcvr", "log loss cvr", "LR to best",
            title=f"{self.title}, {seeds} seeds: mean (least..most)",
        )  # fmt: skip
        for name in self.scores:
            if name in (LR, BEST):
                table.add_section()
            table.add_row(
                name,
                *(self.auc(name, part).text for part in PARTS),
                f"{self.figure(name, lambda score: score.deep_auc).mean:.4f}",
                f"{self.figure(name, lambda score: score.log_loss).mean:.4f}",
                f"{self.gap(name).mean:.0%}",
            )
        console.print(table)
        worth = Table("AUC cvr gained by", *PARTS, title="worth, seed by seed: mean (least..most)")
        for text, more, less in WORTH:
            worth.add_row(text, *(self.worth(more, less, part).signed for part in PARTS))
        console.print(worth)
        self.print_claims(console)
