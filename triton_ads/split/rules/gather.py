"""Lookups in static tables by ids that come from both sides: per block."""

from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.values import Blocks, Row, Static

aten = torch.ops.aten


def embedding(emit: Emitter, node: fx.Node, table: Any, ids: Any, *args: Any) -> Row | Blocks | None:
    """table [V, d], ids [...] -> [..., d]."""
    if not (isinstance(table, Static) and isinstance(ids, Blocks)):
        return None
    width = table.tensor.shape[1]
    parts = [
        emit.emit(p.side, node.target, table, p, *args, shape=(*p.shape, width), dtype=table.tensor.dtype)
        for p in ids.parts
    ]
    return emit.blocks(ids.axis, parts)


RULES: dict[Any, Any] = {aten.embedding.default: embedding}
