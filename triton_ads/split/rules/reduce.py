"""Reductions, norms and softmax: per block where the block axis is not reduced; sums split where it is."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.rules import pointwise, products
from triton_ads.split.values import Blocks, Product, Row, Shape, normal_axis

aten = torch.ops.aten


def _reduced(shape: Shape, axes: Sequence[int], keepdim: bool) -> Shape:
    if keepdim:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def reduction(emit: Emitter, node: fx.Node, x: Any, axis: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    """sum, mean, amax, amin, any, all over given axes."""
    if not isinstance(x, Blocks) or axis is None or kwargs.get("dtype") is not None:
        return None
    axes = [normal_axis(a, len(x.shape)) for a in ([axis] if isinstance(axis, int) else axis)]
    dtype = node.meta["val"].dtype  # a sum of bools is an integer
    given = axes[0] if isinstance(axis, int) else axes
    parts = [
        emit.emit(p.side, node.target, p, given, keepdim, shape=_reduced(p.shape, axes, keepdim), dtype=dtype)
        for p in x.parts
    ]
    if x.axis not in axes:
        return emit.blocks(x.axis if keepdim else x.axis - sum(a < x.axis for a in axes), parts)
    if node.target == aten.mean.dim:  # of blocks: the mean weighted by their sizes
        total = sum(x.sizes)
        parts = [
            emit.emit(p.side, aten.mul.Scalar, p, size / total, shape=p.shape, dtype=p.dtype)
            for p, size in zip(parts, x.sizes, strict=True)
        ]
    combine = _COMBINE[node.target]
    total_value: Row | Blocks = parts[0]
    for part in parts[1:]:
        total_value = pointwise.apply(emit, combine, [total_value, part], {}, part.shape, part.dtype)
    return total_value


def contraction(emit: Emitter, node: fx.Node, x: Any, axis: Any = None, keepdim: bool = False) -> Row | None:
    """The sum over one axis of a product of item and user, `(weights * keys).sum(1)`, as a matrix product per tile.

    Axes that only the item has (f) and only the user has (g) stay: [M, f, r] @ [M, r, g] -> [M, f, g].
    """
    if not (isinstance(x, Row) and isinstance(x.made, Product)) or axis is None:
        return None
    axes = [normal_axis(a, len(x.shape)) for a in ([axis] if isinstance(axis, int) else axis)]
    item, user = emit.unstretched(x.made.item), emit.unstretched(x.made.user)
    if len(axes) != 1 or item.shape[axes[0]] != user.shape[axes[0]] or emit.batch_axis(x) != 0 or axes[0] == 0:
        return None
    rest = [a for a in range(1, len(x.shape)) if a != axes[0]]
    mine, theirs = [a for a in rest if item.shape[a] != 1], [a for a in rest if user.shape[a] != 1]
    if set(mine) & set(theirs):
        return None  # an axis of both would be one small product for each of its elements
    left = _as_matrix(emit, item, [mine, axes])
    right = _as_matrix(emit, user, [axes, theirs])
    product = products.row_product(emit, left, right)
    if product is None:
        return None
    order = [0, *mine, *theirs]
    shape = tuple(x.shape[a] for a in order)
    value = emit.emit("item", aten.reshape.default, product, list(shape), shape=shape, dtype=x.dtype)
    if order != sorted(order):
        back = [order.index(a) for a in sorted(order)]
        shape = tuple(shape[a] for a in back)
        value = emit.emit("item", aten.permute.default, value, back, shape=shape, dtype=x.dtype)
    out = _reduced(x.shape, axes, keepdim)
    return (
        value if out == shape else emit.emit("item", aten.reshape.default, value, list(out), shape=out, dtype=x.dtype)
    )


def _as_matrix(emit: Emitter, x: Row, axes: Sequence[Sequence[int]]) -> Row:
    """`x` as [M, axes of the first group, axes of the second]; its other axes have size 1."""
    order = [0, *axes[0], *axes[1]]
    order += [a for a in range(1, len(x.shape)) if a not in order]
    if order != sorted(order):
        x = emit.emit(x.side, aten.permute.default, x, order, shape=tuple(x.shape[a] for a in order), dtype=x.dtype)
    sizes = [math.prod(int(x.shape[order.index(a)]) for a in group) for group in axes]
    shape = (x.shape[0], *sizes)
    return emit.emit(x.side, aten.reshape.default, x, list(shape), shape=shape, dtype=x.dtype)


def norm(emit: Emitter, node: fx.Node, x: Any, normalized_shape: Sequence[int], *args: Any) -> Any:
    """layer_norm and rms_norm over trailing axes, where the blocks lie on another axis."""
    if not isinstance(x, Blocks) or x.axis >= len(x.shape) - len(normalized_shape):
        emit.reason = "normalised over values of both sides"
        return None
    return _per_block(emit, node, x, normalized_shape, *args)


def softmax(emit: Emitter, node: fx.Node, x: Any, axis: int, *args: Any) -> Any:
    """softmax and log_softmax, where the blocks lie on another axis."""
    if not isinstance(x, Blocks) or normal_axis(axis, len(x.shape)) == x.axis:
        emit.reason = "a softmax over values of both sides"
        return None
    return _per_block(emit, node, x, axis, *args)


def _per_block(emit: Emitter, node: fx.Node, x: Blocks, *args: Any) -> Row | Blocks:
    dtype = node.meta["val"].dtype
    parts = [emit.emit(p.side, node.target, p, *args, shape=p.shape, dtype=dtype) for p in x.parts]
    return emit.blocks(x.axis, parts)


#: How the reductions of two blocks become one.
_COMBINE: dict[Any, Any] = {
    aten.sum.dim_IntList: aten.add.Tensor,
    aten.mean.dim: aten.add.Tensor,
    aten.amax.default: aten.maximum.default,
    aten.amin.default: aten.minimum.default,
    aten.any.dim: aten.logical_or.default,
    aten.all.dim: aten.logical_and.default,
}

RULES: dict[Any, Any] = {
    aten.sum.dim_IntList: reduction,
    aten.mean.dim: reduction,
    aten.amax.default: reduction,
    aten.amin.default: reduction,
    aten.any.dim: reduction,
    aten.all.dim: reduction,
    aten.layer_norm.default: norm,
    aten.rms_norm.default: norm,
    aten.softmax.int: softmax,
    aten.log_softmax.int: softmax,
}
#: For an item's value that was made of a user's.
REWRITES: dict[Any, Any] = {aten.sum.dim_IntList: contraction}
