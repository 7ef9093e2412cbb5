"""What a model costs: floating point operations of one row, and parameters, part by part.

Only matrix products are counted (2 for a multiplication with its addition);
what is done element by element and the gathers are not.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from triton_ads.features.ids import FIRST_ROW
from triton_ads.models import build_model
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe


@dataclass(frozen=True)
class Cost:
    """Of one part of a model."""

    flops: int  # of one row
    parameters: int  # the embedding table left out: it grows with the ids, not with the model


def model_cost(recipe: Recipe, tier: str) -> dict[str, Cost]:
    """Cost by part, in the order of the model's source, and `total`.

    Products that stand in the model's own `forward` (attention over the histories) are the part `attention`.
    """
    table_rows = {name: (table.rows or 0) + FIRST_ROW for name, table in recipe.tables.items()}
    model = build_model(recipe, tier, table_rows).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**example_inputs(recipe, table_rows, rows=1))
    root = type(model).__name__
    by_module = {name: sum(count.values()) for name, count in counter.get_flop_counts().items()}
    costs = {}
    for name, part in model.named_children():
        # A list of modules has no forward of its own: its items are counted.
        items = [f"{name}.{i}" for i in range(len(part))] if isinstance(part, nn.ModuleList) else [name]
        flops = sum(by_module.get(f"{root}.{item}", 0) for item in items)
        costs[name] = Cost(flops, sum(p.numel() for n, p in part.named_parameters() if n != "table.weight"))
    total = by_module[root]
    rest = total - sum(cost.flops for cost in costs.values())
    if rest:
        costs["attention"] = Cost(rest, 0)
    return {**costs, "total": Cost(total, sum(cost.parameters for cost in costs.values()))}
