"""LR and FM against their formulas in loops."""

import numpy as np
import pytest
import torch

from tests.support.recipes import tiny_recipe
from triton_ads.training.baselines import FactorizationMachine

ROWS = {"user": 4, "item": 6, "place": 4, "zip": 18}
#: Groups of the tiny recipe: input, columns, table.
GROUPS = [
    ("user_ids", [0], "user"),
    ("user_ids", [1], "zip"),
    ("user_ids", [2], "place"),
    ("item_ids", [0], "item"),
    ("item_ids", [1, 2], "item"),
    ("sequence_ids", [0, 2, 4], "item"),
    ("sequence_ids", [1, 3, 5], "zip"),
    ("sequence_ids", [6, 7], "item"),
]


def random_inputs(rows: int) -> dict[str, torch.Tensor]:
    random = np.random.default_rng(0)
    widths = {"user_ids": 3, "item_ids": 3, "sequence_ids": 8}
    inputs = {name: torch.from_numpy(random.integers(0, 4, (rows, width))) for name, width in widths.items()}
    inputs["sequence_ids"][0] = 0
    inputs["user_dense"] = torch.from_numpy(random.normal(size=(rows, 1)).astype(np.float32))
    return inputs


@pytest.mark.parametrize("rank", [0, 3])
def test_equals_the_formula(rank: int) -> None:
    recipe = tiny_recipe(labels=["cvr", "dcvr"])
    model = FactorizationMachine(recipe, ROWS, rank)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(parameter.numel()))
    inputs = random_inputs(5)
    found = model(**inputs).detach().numpy()

    first = {"user": 0, "item": 4, "place": 10, "zip": 14}
    table = model.table.weight.detach().numpy().reshape(-1, 2, 1 + rank)
    dense = model.dense_DW.detach().numpy().reshape(1, 2, 1 + rank)
    for m in range(5):
        for k in range(2):
            groups = []
            for name, columns, of in GROUPS:
                ids = [int(inputs[name][m, c]) for c in columns]
                vectors = [table[first[of] + i, k] for i in ids if i != 0]
                groups.append(np.mean(vectors, axis=0) if vectors else np.zeros(1 + rank))
            groups.append(float(inputs["user_dense"][m, 0]) * dense[0, k])
            logit = float(model.bias_K[k].detach()) + sum(g[0] for g in groups)
            for i, a in enumerate(groups):
                logit += sum(float(a[1:] @ b[1:]) for b in groups[i + 1 :])
            # Float32: some hundred terms of size 1 to 10, each right to 6e-8 of its size.
            assert found[m, k] == pytest.approx(logit, abs=1e-4)


def test_starts_at_the_base_rate_of_one_half_and_by_the_seed() -> None:
    recipe = tiny_recipe()
    first, again, other = (FactorizationMachine(recipe, ROWS, 3, seed).table.weight for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    model = FactorizationMachine(recipe, ROWS, 0)
    assert model(**random_inputs(5)).abs().max() == 0
