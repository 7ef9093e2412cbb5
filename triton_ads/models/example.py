"""Random inputs of the right form: to trace a model, to count what it costs, to test it."""

import torch
from torch import Tensor

from triton_ads.features.ids import PAD
from triton_ads.recipe import Recipe


def example_inputs(recipe: Recipe, table_rows: dict[str, int], rows: int, seed: int = 0) -> dict[str, Tensor]:
    """Inputs of `rows` rows by name, as of `build_model`; inputs without columns are left out.

    Ids are uniform over their table, PAD and OOV included; histories have any length from empty to full.
    """
    generator = torch.Generator().manual_seed(seed)

    def ids(tables: list[str]) -> Tensor:
        bounds_F = torch.tensor([table_rows[table] for table in tables])
        return (torch.rand(rows, len(tables), generator=generator, dtype=torch.float64) * bounds_F).long()

    inputs = {
        "user_ids": ids([str(c.table) for c in recipe.id_columns("user", "context")]),
        "item_ids": ids([str(c.table) for c in recipe.id_columns("item")]),
        "user_dense": torch.randn(rows, len(recipe.dense_columns("user", "context")), generator=generator),
        "item_dense": torch.randn(rows, len(recipe.dense_columns("item")), generator=generator),
    }
    histories = [torch.empty(rows, 0, dtype=torch.int64)]
    for sequence in recipe.sequences:
        fields = [field.table for field in sequence.fields]
        events = ids(fields * sequence.length)
        known = torch.randint(0, sequence.length + 1, (rows, 1), generator=generator) * len(fields)
        histories.append(torch.where(torch.arange(events.shape[1]) < known, events, PAD))
    inputs["sequence_ids"] = torch.cat(histories, dim=1)
    return {name: tensor for name, tensor in inputs.items() if tensor.shape[1]}
