"""Operators that work element by element: per block; a user met by an item is broadcast by tile."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.values import Blocks, Product, Row, Shape, Static, Terms, resized

aten = torch.ops.aten

#: Not tagged as pointwise by PyTorch, but element by element all the same.
ALSO_POINTWISE = {
    aten.clone.default,
    aten.contiguous.default,
    aten.detach.default,
    aten.alias.default,
    aten.dropout.default,
    aten._to_copy.default,
    aten.to.dtype,
    aten.zeros_like.default,
    aten.ones_like.default,
    aten.full_like.default,
    aten.where.self,
    aten.where.ScalarOther,
    aten.where.ScalarSelf,
    aten.where.Scalar,
    aten.__and__.Tensor,
    aten.__or__.Tensor,
    aten.__xor__.Tensor,
}


def is_pointwise(target: Any) -> bool:
    return target in ALSO_POINTWISE or torch.Tag.pointwise in getattr(target, "tags", ())


def pointwise(emit: Emitter, node: fx.Node, *args: Any, **kwargs: Any) -> Row | Blocks | None:
    """The rule of every pointwise operator with one result."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return None
    shape = tuple(size if isinstance(size, int) else size.node.expr for size in value.shape)
    return apply(emit, node.target, args, kwargs, shape, value.dtype)


def apply(
    emit: Emitter, target: Any, args: Sequence[Any], kwargs: dict[str, Any], shape: Shape, dtype: torch.dtype
) -> Row | Blocks:
    """A pointwise operator on any values, giving a value of row-wise `shape`."""
    rank = len(shape)
    blocked = [value for value in args if isinstance(value, Blocks)]
    if not blocked:
        return _unblocked(emit, target, args, kwargs, shape, dtype)
    axis = _axis_in_output(blocked[0], rank)
    args = [  # an operand cut along another axis is made whole
        emit.as_item(value) if isinstance(value, Blocks) and _axis_in_output(value, rank) != axis else value
        for value in args
    ]
    edges = sorted({edge for value in args if isinstance(value, Blocks) for edge in _edges(value)})
    parts = []
    for low, high in pairwise(edges):
        segment = [_segment(emit, value, axis, rank, low, high) for value in args]
        parts.append(_unblocked(emit, target, segment, kwargs, resized(shape, axis, high - low), dtype))
    return emit.blocks(axis, parts)


def _unblocked(
    emit: Emitter, target: Any, args: Sequence[Any], kwargs: dict[str, Any], shape: Shape, dtype: torch.dtype
) -> Row:
    rows = [value for value in args if isinstance(value, Row)]
    sides = {row.side for row in rows}
    if len(sides) == 1:
        return emit.emit(rows[0].side, target, *args, shape=shape, dtype=dtype, keywords=kwargs)
    axes = {None if (a := emit.batch_axis(row)) is None else a + len(shape) - len(row.shape) for row in rows}
    if len(axes) != 1 or None in axes:
        whole = [emit.as_item(value) if isinstance(value, Row) else value for value in args]
        return emit.emit("item", target, *whole, shape=shape, dtype=dtype, keywords=kwargs)
    return replace(_by_tile(emit, target, args, kwargs, shape, dtype), made=_ingredients(target, args, kwargs, shape))


def _ingredients(target: Any, args: Sequence[Any], kwargs: dict[str, Any], shape: Shape) -> Terms | Product | None:
    """Of what a sum, difference or product of a user and an item is made."""
    if len(args) != 2 or not all(isinstance(value, Row) and len(value.shape) == len(shape) for value in args):
        return None
    a, b = args
    if a.dtype != b.dtype or not a.dtype.is_floating_point:
        return None
    if target in (aten.add.Tensor, aten.sub.Tensor):
        factor = float(kwargs.get("alpha", 1))
        return Terms(((a, 1.0), (b, factor if target is aten.add.Tensor else -factor)))
    if target is aten.mul.Tensor:
        return Product(*((a, b) if a.side == "item" else (b, a)))
    return None


def _by_tile(
    emit: Emitter, target: Any, args: Sequence[Any], kwargs: dict[str, Any], shape: Shape, dtype: torch.dtype
) -> Row:
    """Items as [..., C, P, ...] and users as [..., C, 1, ...]: the broadcast happens inside the operator."""
    arguments = []
    for value in _shortest(emit, args, shape):
        if isinstance(value, Row) and value.side == "item":
            arguments.append(emit.unfold(value))
        elif isinstance(value, Row):
            axis = emit.batch_axis(value)
            assert axis is not None
            arguments.append(emit.item.call(aten.unsqueeze.default, emit.by_tile(value), axis + 1))
        elif isinstance(value, Static) and value.tensor.dim() == len(shape):
            batch = next(axis for axis, size in enumerate(shape) if not isinstance(size, int))
            arguments.append(emit.item.constant(value.tensor.unsqueeze(batch)))
        else:
            arguments.append(emit.argument("item", value))
    keywords = {key: emit.argument("item", value) for key, value in kwargs.items()}
    return emit.fold(emit.item.call(target, *arguments, **keywords), shape, dtype)


def _shortest(emit: Emitter, args: Sequence[Any], shape: Shape) -> list[Any]:
    """The operands before they were stretched, as far as the others stretch the result to `shape` all the same."""
    short = list(args)
    for position, value in enumerate(args):
        if not isinstance(value, Row):
            continue
        base = emit.unstretched(value)
        others = [o.shape for o in (*short[:position], *short[position + 1 :]) if isinstance(o, Row | Static)]
        reached = all(
            own == size or any(len(other) > axis and other[::-1][axis] == size for other in others)
            for axis, (own, size) in enumerate(zip(base.shape[::-1], shape[::-1], strict=False))
        )
        short[position] = base if reached else value
    return short


def _axis_in_output(value: Blocks, rank: int) -> int:
    return value.axis + rank - len(value.shape)


def _edges(value: Blocks) -> list[int]:
    edges = [0]
    for size in value.sizes:
        edges.append(edges[-1] + size)
    return edges


def _segment(emit: Emitter, value: Any, axis: int, rank: int, low: int, high: int) -> Any:
    """What of an operand meets the elements [low, high) of the output's `axis`."""
    if isinstance(value, Blocks):
        start = 0
        for part in value.parts:
            size = int(part.shape[value.axis])
            if start <= low < start + size:
                return narrow(emit, part, value.axis, low - start, high - start)
            start += size
    if not isinstance(value, Row | Static):
        return value
    own = axis - rank + len(value.shape)
    if own < 0 or value.shape[own] == 1:
        return value
    return narrow(emit, value, own, low, high)


def narrow(emit: Emitter, value: Row | Static, axis: int, low: int, high: int) -> Any:
    """Elements [low, high) of `axis`."""
    if isinstance(value, Static):
        return Static(value.tensor.narrow(axis, low, high - low))
    if low == 0 and high == value.shape[axis]:
        return value
    shape = resized(value.shape, axis, high - low)
    return emit.emit(value.side, aten.slice.Tensor, value, axis, low, high, shape=shape, dtype=value.dtype)
