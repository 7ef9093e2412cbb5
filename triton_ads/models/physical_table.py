"""One physical table for all tables of a recipe: where each lies, and the addresses of ids in it.

Physical rows are narrow: `unit_width` floats, the greatest common divisor of the tables' widths. A vector of width w
takes k = w / unit_width consecutive rows, so tables of different widths share one table, and all columns of a side
are read with one gather:

    table a: width 2, 2 rows       physical table, unit_width 1        ids a = 1, b = 1
    table b: width 1, 3 rows       a0 a0 a1 a1 b0 b1 b2                physical rows 2 3 | 5 in one gather
"""

# Legend: M rows, F id columns, U physical rows of all columns.

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from triton_ads.features.ids import FIRST_ROW, OOV, PAD
from triton_ads.recipe import Recipe


@dataclass(frozen=True)
class PhysicalTable:
    """The layout: tables follow each other in the recipe's order."""

    unit: int  # floats in a physical row
    rows: int  # physical rows in all
    first: dict[str, int]  # table -> its first physical row
    units: dict[str, int]  # table -> physical rows of one vector
    ids: dict[str, int]  # table -> its rows, PAD and OOV included

    @classmethod
    def of(cls, recipe: Recipe, table_rows: dict[str, int]) -> Self:
        """The layout of `recipe`, whose tables have `table_rows` rows.

        Raises:
            ValueError: `table_rows` has other tables than the recipe, or a table without PAD and OOV.
        """
        if set(table_rows) != set(recipe.tables):
            raise ValueError(f"table_rows: tables {sorted(table_rows)} found, {sorted(recipe.tables)} needed")
        first, units, rows = {}, {}, 0
        for name, table in recipe.tables.items():
            if table_rows[name] < FIRST_ROW:
                raise ValueError(f"table_rows[{name!r}]: {table_rows[name]} found, {FIRST_ROW} or more needed")
            first[name], units[name] = rows, table.width // recipe.unit_width
            rows += table_rows[name] * units[name]
        return cls(recipe.unit_width, rows, first, units, dict(table_rows))


class Addresses(nn.Module):
    """From the ids of some columns to physical rows: `first + id * k + j` for the k parts of a vector.

    Args:
        layout: the physical table.
        tables: the table of each column.
    """

    ids_F: Tensor
    column_U: Tensor
    units_U: Tensor
    first_U: Tensor

    def __init__(self, layout: PhysicalTable, tables: list[str]) -> None:
        super().__init__()
        parts = [(f, table, j) for f, table in enumerate(tables) for j in range(layout.units[table])]
        for name, values in (
            ("ids_F", [layout.ids[table] for table in tables]),
            ("column_U", [f for f, _, _ in parts]),
            ("units_U", [layout.units[table] for _, table, _ in parts]),
            ("first_U", [layout.first[table] + j for _, table, j in parts]),
        ):
            self.register_buffer(name, torch.tensor(values, dtype=torch.int64))

    def known(self, ids_MF: Tensor) -> Tensor:
        """int64 [M, F]: an id below 0 or beyond its table becomes OOV.

        In the graph, because engines differ: ONNX Runtime reads row -1 as the last row, eager PyTorch raises.
        """
        return torch.where((ids_MF < 0) | (ids_MF >= self.ids_F), OOV, ids_MF)

    def forward(self, ids_MF: Tensor) -> tuple[Tensor, Tensor]:
        """Physical rows int64 [M, U] of known ids, and bool [M, U]: false where the id is PAD."""
        ids_MU = ids_MF.index_select(1, self.column_U)
        return ids_MU * self.units_U + self.first_U, ids_MU != PAD
