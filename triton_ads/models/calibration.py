"""A ranker whose probabilities are honest: growing maps of its logits, chosen by the scenario of a row.

    f(x) = slope x + shift + sum_j bend_j relu(x - knot_j)

A line (Platt) has no knots; a growing piecewise linear curve (isotonic) bends at its knots. The map is part of the
exported graph, so every check of the graph covers it. It depends on the scenario alone: the split puts it into the
user part, and its numbers travel in the user's state.
"""

# Legend: M rows, F id columns, R rows of the scenario's table, G groups of scenarios, K labels, J knots, n logits.

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from triton_ads.features.ids import FIRST_ROW, OOV
from triton_ads.recipe import Recipe


@dataclass(frozen=True)
class LabelMap:
    """The map of one label, in one scenario or in all that have none of their own."""

    label: str
    row: int | None  # of the scenario in its table; None: of all scenarios together
    slope: float
    shift: float
    knots: tuple[float, ...] = ()  # logits, growing
    bends: tuple[float, ...] = ()

    def __call__(self, logit_n: NDArray[np.floating]) -> NDArray[np.float64]:
        """Calibrated logits, float64 [n]."""
        logit_n = logit_n.astype(np.float64)
        above_nJ = np.maximum(logit_n[:, None] - np.array(self.knots), 0)
        return self.slope * logit_n + self.shift + above_nJ @ np.array(self.bends)


def map_of(maps: Sequence[LabelMap], label: str, row: int | None) -> LabelMap:
    """The map that a row of the scenario's table gets: its own, else that of all scenarios, else none (x itself)."""
    found = {m.row: m for m in maps if m.label == label}
    return found.get(row) or found.get(None) or LabelMap(label, None, 1.0, 0.0)


class Calibrated(nn.Module):
    """Logits [M, K] of `ranker` through the maps; inputs as of `triton_ads.models.build_model`, by name.

    Args:
        ranker: gives logits [M, K], K labels in the recipe's order.
        recipe: labels and scenario.
        maps: at most one for each label and scenario. A label without any keeps its logits.
        table_rows: rows of the scenario's table, PAD and OOV included; 0 where the recipe has no scenario.
        default_row: the row of `scenario.default`: what an unknown scenario is answered as.
    """

    group_of_row_R: Tensor
    slope_GK: Tensor
    shift_GK: Tensor
    knots_GKJ: Tensor
    bends_GKJ: Tensor

    def __init__(
        self, ranker: nn.Module, recipe: Recipe, maps: Sequence[LabelMap], table_rows: int = 0, default_row: int = OOV
    ) -> None:
        super().__init__()
        self.ranker = ranker
        self.column = _scenario_column(recipe)
        rows = sorted({m.row for m in maps if m.row is not None})
        if rows and (self.column is None or not FIRST_ROW <= rows[0] <= rows[-1] < table_rows):
            raise ValueError(f"maps of scenario rows {rows} found, rows in [{FIRST_ROW}, {table_rows}) allowed")
        self.by_scenario = bool(rows)
        group_of_row_R = torch.zeros(max(table_rows, FIRST_ROW), dtype=torch.int64)
        group_of_row_R[rows] = torch.arange(1, 1 + len(rows))
        group_of_row_R[:FIRST_ROW] = group_of_row_R[default_row]
        chosen = [[map_of(maps, label, row) for label in recipe.labels] for row in (None, *rows)]
        knots = max(len(m.knots) for group in chosen for m in group)
        self.register_buffer("group_of_row_R", group_of_row_R)
        self.register_buffer("slope_GK", torch.tensor([[m.slope for m in group] for group in chosen]))
        self.register_buffer("shift_GK", torch.tensor([[m.shift for m in group] for group in chosen]))
        for name in ("knots", "bends"):  # a map of fewer knots bends by 0 at the others
            padded = [[(*getattr(m, name), *[0.0] * (knots - len(m.knots))) for m in group] for group in chosen]
            self.register_buffer(f"{name}_GKJ", torch.tensor(padded))

    def forward(self, **inputs: Tensor) -> Tensor:
        """Calibrated logits float32 [M, K]."""
        logits_MK = self.ranker(**inputs)
        slope, shift, knots, bends = self._numbers(inputs["user_ids"])
        mapped_MK = slope * logits_MK + shift
        if self.knots_GKJ.shape[2]:
            mapped_MK = mapped_MK + (F.relu(logits_MK.unsqueeze(-1) - knots) * bends).sum(dim=-1)
        return mapped_MK

    def _numbers(self, user_ids_MF: Tensor) -> list[Tensor]:
        """Of every row, [M, K] and [M, K, J]; [K] and [K, J] where all scenarios share them."""
        numbers = [self.slope_GK, self.shift_GK, self.knots_GKJ, self.bends_GKJ]
        if not self.by_scenario or self.column is None:
            return [number[0] for number in numbers]
        row_M = user_ids_MF[:, self.column]
        known_M = (row_M >= 0) & (row_M < len(self.group_of_row_R))
        group_M = self.group_of_row_R.index_select(0, torch.where(known_M, row_M, OOV))
        return [number.index_select(0, group_M) for number in numbers]


def _scenario_column(recipe: Recipe) -> int | None:
    if recipe.scenario is None:
        return None
    return [column.feature for column in recipe.id_columns("user", "context")].index(recipe.scenario.feature)
