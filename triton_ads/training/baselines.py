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
from triton_ads.training.train import measure

FACTOR_STD = 0.02
#: Rank, and learning rates in the place of the recipe's, which suit deep models. Best of a few on validation.
SETTINGS = {
    "lr": (0, {"learning_rate_dense": 0.02, "learning_rate_sparse": 0.06}),
    "fm": (8, {"learning_rate_dense": 0.02, "learning_rate_sparse": 0.01}),
}


def train_baselines(recipe: Recipe, data_folder: Path, folder: Path) -> None:
    """Train LR and FM as a tier is trained, but for the learning rates.

    Writes `folder/baselines.json`: name -> label -> measure -> value, on the test part.
    """
    examples = Examples.load(recipe, data_folder / "examples")
    table_rows = Tables.load(recipe, data_folder / "vocabularies").table_rows
    found = {}
    for name, (rank, rates) in SETTINGS.items():
        model = FactorizationMachine(recipe, table_rows, rank, recipe.training.seed)
        fit(model, examples, recipe.training.model_copy(update=rates), f"train {name}")
        found[name] = measure(model, examples, "test")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "baselines.json").write_text(json.dumps(found, indent=1) + "\n")


@dataclass(frozen=True)
class _Groups:
    """Id columns of one input: where each column's table starts, and the group of each column."""

    first_F: Tensor
    group_FG: Tensor  # float32, 1 where the column belongs to the group


class FactorizationMachine(nn.Module):
    """Row-wise, with the inputs of `triton_ads.models.build_model`; rank 0 is logistic regression."""

    def __init__(self, recipe: Recipe, table_rows: dict[str, int], rank: int, seed: int = 0) -> None:
        super().__init__()
        self.labels, self.rank = len(recipe.labels), rank
        ends = np.cumsum(list(table_rows.values())).tolist()
        first = {name: end - table_rows[name] for name, end in zip(table_rows, ends, strict=True)}
        sides = {
            "user_ids": [(str(c.table), c.feature) for c in recipe.id_columns("user", "context")],
            "item_ids": [(str(c.table), c.feature) for c in recipe.id_columns("item")],
            "sequence_ids": [
                (f.table, f"{s.name}.{f.name}") for s in recipe.sequences for _ in range(s.length) for f in s.fields
            ],
        }
        self._groups = {name: _groups(columns, first) for name, columns in sides.items() if columns}
        width = self.labels * (1 + rank)
        # Linear weights start at 0, factors near it: at 0 all factors of a label would stay equal.
        start = torch.randn(ends[-1], self.labels, 1 + rank, generator=torch.Generator().manual_seed(seed))
        start[..., 0] = 0
        self.table = nn.Embedding.from_pretrained(FACTOR_STD * start.flatten(1), freeze=False)
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
