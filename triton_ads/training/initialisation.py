"""How parameters start: the rules that made TorchRec models match their TensorFlow originals (facts of iQIYI).

    matrices            Glorot-uniform: U(+-sqrt(6 / (fan_in + fan_out))) (Glorot and Bengio 2010, Eq. 16)
    embedding tables    uniform unit scaling: U(+-sqrt(3 / ids)) (TensorFlow's uniform_unit_scaling_initializer)
    biases              0
    scales of norms     as constructed, 1

A stack of matrices [H, in, out], one per token, is Glorot-uniform in each matrix. Tables that share one physical table
keep their own scales: the vectors of 2 genders start large, those of 1,600 items small. (Measured on MovieLens: one
scale for the whole physical table costs 0.007 AUC on validation.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from triton_ads.models.physical_table import PhysicalTable
from triton_ads.recipe import Recipe


@dataclass(frozen=True)
class TablePart:
    """A table inside a physical one: `ids` vectors in the physical rows [first, end)."""

    first: int
    end: int
    ids: int


def physical_parts(recipe: Recipe, table_rows: dict[str, int]) -> list[TablePart]:
    """The tables of a recipe in the physical table of its models."""
    layout = PhysicalTable.of(recipe, table_rows)
    return [
        TablePart(first, first + layout.ids[name] * layout.units[name], layout.ids[name])
        for name, first in layout.first.items()
    ]


def initialise(model: nn.Module, seed: int, parts: Sequence[TablePart] = ()) -> None:
    """Set every parameter of `model` in place; the same seed gives the same parameters on every worker.

    Args:
        parts: the tables in the model's one nn.Embedding; without them it counts as one table.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if name.endswith("bias"):
                    parameter.zero_()
                elif parameter.ndim >= 2:
                    if isinstance(module, nn.Embedding):
                        for part in parts or [TablePart(0, len(parameter), len(parameter))]:
                            limit = (3 / part.ids) ** 0.5
                            parameter[part.first : part.end].uniform_(-limit, limit, generator=generator)
                    else:
                        # [out, in] of nn.Linear or [.., in, out] of a stack: the sum does not mind the order.
                        limit = (6 / (parameter.shape[-2] + parameter.shape[-1])) ** 0.5
                        parameter.uniform_(-limit, limit, generator=generator)
