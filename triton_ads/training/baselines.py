"""What a ranker must be compared with: logistic regression and a factorization machine on the same features and split.

    LR   logit_k = b_k + sum_g w_k(x_g)
    FM   LR + 1/2 sum_d ((sum_g v_kd(x_g))^2 - sum_g v_kd(x_g)^2)                     Rendle 2010, Eqs. 1 and 5

A group g is a feature or a field of a sequence; w(x_g) and v(x_g) are the means over its ids that are not PAD. A
dense column is a group with a vector of its own, times the value. Each label k has its own weights.
"""

# Legend: M rows, F id columns, G groups, D dense columns, K labels, r rank, W = K (1 + r).

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from triton_ads.data.examples import Examples
from triton_ads.features.ids import PAD
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe
from triton_ads.training.fit import fit
from triton_ads.training.initialisation import TablePart, initialise
from triton_ads.training.train import measure

RANKS = {"lr": 0, "fm": 8}


def train_baselines(recipe: Recipe, data_folder: Path, folder: Path) -> None:
    """Train LR and FM as a tier is trained; write `folder/baselines.json`: name -> label -> measure -> value (test)."""
    examples = Examples.load(recipe, data_folder / "examples")
    table_rows = Tables.load(recipe, data_folder / "vocabularies").table_rows
    found = {}
    for name, rank in RANKS.items():
        model = FactorizationMachine(recipe, table_rows, rank)
        initialise(model, recipe.training.seed, list(_parts(table_rows).values()))
        fit(model, examples, recipe.training, f"train {name}")
        found[name] = measure(model, examples, "test")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "baselines.json").write_text(json.dumps(found, indent=1) + "\n")


def _parts(table_rows: dict[str, int]) -> dict[str, TablePart]:
    """All tables one after the other; a vector is one row."""
    ends = np.cumsum(list(table_rows.values())).tolist()
    return {name: TablePart(end - ids, end, ids) for (name, ids), end in zip(table_rows.items(), ends, strict=True)}


@dataclass(frozen=True)
class _Groups:
    """Id columns of one input: where each column's table starts, and the group of each column."""

    first_F: Tensor
    group_FG: Tensor  # float32, 1 where the column belongs to the group


class FactorizationMachine(nn.Module):
    """Row-wise, with the inputs of `triton_ads.models.build_model`; rank 0 is logistic regression."""

    def __init__(self, recipe: Recipe, table_rows: dict[str, int], rank: int) -> None:
        super().__init__()
        self.labels, self.rank = len(recipe.labels), rank
        first = {part_name: part.first for part_name, part in _parts(table_rows).items()}
        sides = {
            "user_ids": [(str(c.table), c.feature) for c in recipe.id_columns("user", "context")],
            "item_ids": [(str(c.table), c.feature) for c in recipe.id_columns("item")],
            "sequence_ids": [
                (f.table, f"{s.name}.{f.name}") for s in recipe.sequences for _ in range(s.length) for f in s.fields
            ],
        }
        self._groups = {name: _groups(columns, first) for name, columns in sides.items() if columns}
        width = self.labels * (1 + rank)
        self.table = nn.Embedding(sum(table_rows.values()), width)
        dense = len(recipe.dense_columns("user", "context", "item"))
        self.dense_DW = nn.Parameter(torch.zeros(dense, width))
        self.bias_K = nn.Parameter(torch.zeros(self.labels))

    def forward(
        self,
        user_ids: Tensor,
        item_ids: Tensor,
        user_dense: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        item_dense: Tensor | None = None,
    ) -> Tensor:
        """Logits float32 [M, K]."""
        parts = [self._pool("user_ids", user_ids), self._pool("item_ids", item_ids)]
        if sequence_ids is not None:
            parts.append(self._pool("sequence_ids", sequence_ids))
        dense = [x for x in (user_dense, item_dense) if x is not None]
        if dense:
            parts.append(torch.cat(dense, dim=1).unsqueeze(-1) * self.dense_DW)
        x_MGKr = torch.cat(parts, dim=1).unflatten(2, (self.labels, 1 + self.rank))
        linear_MK = self.bias_K + x_MGKr[..., 0].sum(dim=1)
        v_MGKr = x_MGKr[..., 1:]
        return linear_MK + 0.5 * (v_MGKr.sum(dim=1).square() - v_MGKr.square().sum(dim=1)).sum(dim=-1)

    def _pool(self, name: str, ids_MF: Tensor) -> Tensor:
        """Mean vector of each group, float32 [M, G, W]; zero where all its ids are PAD."""
        groups = self._groups[name]
        valid_MF = (ids_MF != PAD).to(torch.float32)
        vectors_MFW = self.table(ids_MF + groups.first_F) * valid_MF.unsqueeze(-1)
        count_MG = (valid_MF @ groups.group_FG).clamp(min=1)
        return torch.einsum("mfw,fg->mgw", vectors_MFW, groups.group_FG) / count_MG.unsqueeze(-1)


def _groups(columns: list[tuple[str, str]], first: dict[str, int]) -> _Groups:
    names = list(dict.fromkeys(name for _, name in columns))
    group = torch.tensor([names.index(name) for _, name in columns])
    return _Groups(
        first_F=torch.tensor([first[table] for table, _ in columns]),
        group_FG=nn.functional.one_hot(group, len(names)).to(torch.float32),
    )
