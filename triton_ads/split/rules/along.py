"""Operators that work along given axes and leave every other axis alone: block by block where the blocks lie on one."""

from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.values import Blocks, normal_axis, resized, shape_of

aten = torch.ops.aten


def along(emit: Emitter, node: fx.Node, x: Any, *args: Any, **kwargs: Any) -> Any:
    """`dim` or `dims` says which axes; the others are kept, or all but those where `keepdim` is not set."""
    if not isinstance(x, Blocks):
        return None
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    defaults = {argument.name: argument.default_value for argument in node.target._schema.arguments}  # type: ignore[union-attr]
    told = {**defaults, **dict(zip(names, (x, *args), strict=False)), **kwargs}
    given = told.get("dim", told.get("dims"))
    rank = len(x.shape)
    axes = {normal_axis(a, rank) for a in ([given] if isinstance(given, int) else given or [])}
    if not axes or x.axis in axes:
        emit.reason = "computed along an axis that holds values of both sides"
        return None
    value = node.meta["val"]
    results = list(value) if isinstance(value, list | tuple) else [value]
    axis = x.axis if results[0].dim() == rank else x.axis - sum(a < x.axis for a in axes)
    found: list[list[Any]] = [[] for _ in results]
    for part in x.parts:
        shapes = [resized(shape_of(result), axis, part.shape[x.axis]) for result in results]
        if results[0] is value:
            found[0].append(
                emit.emit(part.side, node.target, part, *args, shape=shapes[0], dtype=value.dtype, keywords=kwargs)
            )
            continue
        many = emit.emit(part.side, node.target, part, *args, shape=(), dtype=x.dtype, keywords=kwargs)
        for index, (shape, result) in enumerate(zip(shapes, results, strict=True)):
            found[index].append(emit.item_of(many, index, shape, result.dtype))
    blocks = [emit.blocks(axis, parts) for parts in found]
    return blocks[0] if results[0] is value else blocks


RULES: dict[Any, Any] = dict.fromkeys(
    (
        aten.max.dim,
        aten.min.dim,
        aten.aminmax.default,
        aten.argmax.default,
        aten.argmin.default,
        aten.logsumexp.default,
        aten.var.dim,
        aten.var.correction,
        aten.std.dim,
        aten.std.correction,
        aten.prod.dim_int,
        aten.count_nonzero.dim_IntList,
        aten.cumsum.default,
        aten.cumprod.default,
        aten.sort.default,
        aten.topk.default,
        aten.glu.default,
        aten.flip.default,
        aten.roll.default,
    ),
    along,
)
