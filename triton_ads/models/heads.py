"""What the heads of a model stand for: labels, or scenarios x labels of which the request's scenario chooses.

All heads are computed for every row, then those of its scenario are taken. The choice is a product with a one-hot
row of a constant: one gather, the same in a batch of mixed scenarios, and nothing that depends on the data's values.
"""

# Legend: M rows, H heads, C scenarios, K labels, R rows of the scenario's table.

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from triton_ads.features.ids import FIRST_ROW, hashed_rows, raw_id
from triton_ads.recipe import Recipe


def head_count(recipe: Recipe) -> int:
    """Heads a model computes: the labels, times the scenarios where heads stand for scenarios."""
    return len(recipe.labels) * (len(recipe.heads.scenarios) if recipe.heads.by == "scenarios" else 1)


class HeadSelection(nn.Module):
    """Heads [M, H] (scenario by scenario, label by label) -> logits [M, K] of the labels.

    Args:
        recipe: labels, scenario and heads.
        table_rows: rows of each table.
        scenario_rows: the row of each of `recipe.heads.scenarios`; see `triton_ads.models.build_model`.
    """

    of_row_RC: Tensor

    def __init__(self, recipe: Recipe, table_rows: dict[str, int], scenario_rows: Sequence[int] | None) -> None:
        super().__init__()
        self.labels = len(recipe.labels)
        self.by_scenario = recipe.heads.by == "scenarios"
        if self.by_scenario:
            self.register_buffer("of_row_RC", _selector(recipe, table_rows, scenario_rows))

    def forward(self, heads_MH: Tensor, scenario_rows_M: Tensor | None) -> Tensor:
        if not self.by_scenario or scenario_rows_M is None:
            return heads_MH
        chosen_MC = F.embedding(scenario_rows_M, self.of_row_RC)
        heads_MCK = heads_MH.unflatten(1, (-1, self.labels))
        return (heads_MCK * chosen_MC.unsqueeze(-1)).sum(dim=1)


def _selector(recipe: Recipe, table_rows: dict[str, int], rows: Sequence[int] | None) -> Tensor:
    """One-hot [R, C]: which scenario's heads a row of the scenario's table takes; rows of no scenario the default's."""
    assert recipe.scenario is not None  # the recipe is validated
    scenarios = recipe.heads.scenarios
    (table,) = [str(f.table) for f in recipe.features if f.name == recipe.scenario.feature]
    if rows is None:
        rows = _rows(recipe, table, table_rows[table])
    if len(rows) != len(scenarios) or not all(FIRST_ROW <= row < table_rows[table] for row in rows):
        raise ValueError(
            f"scenario_rows: {list(rows)} found; one row of table {table} in [{FIRST_ROW}, {table_rows[table]}) "
            f"is needed for each of {len(scenarios)} heads.scenarios"
        )
    head_of_row = torch.full((table_rows[table],), scenarios.index(recipe.scenario.default))
    head_of_row[list(rows)] = torch.arange(len(scenarios))
    return F.one_hot(head_of_row, len(scenarios)).to(torch.float32)


def _rows(recipe: Recipe, table: str, table_rows: int) -> list[int]:
    raw = np.array([raw_id(scenario) for scenario in recipe.heads.scenarios], dtype=np.int64)
    hashed = recipe.tables[table].rows
    if hashed is not None:
        return hashed_rows(raw, hashed).tolist()
    # The vocabulary holds every scenario; with no more ids than that it is just them, sorted.
    if table_rows != FIRST_ROW + len(raw):
        raise ValueError(
            f"heads.by: scenarios needs `scenario_rows`: table {table} has {table_rows - FIRST_ROW} ids, "
            f"of which {len(raw)} are heads.scenarios"
        )
    return (FIRST_ROW + np.argsort(np.argsort(raw))).tolist()
