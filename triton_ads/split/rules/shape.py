"""Operators that move elements without computing: concatenation, views, slices, permutations of blocks."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.rules.pointwise import narrow
from triton_ads.split.values import Blocks, Row, Shape, Size, Static, Tensorial, normal_axis, resized

aten = torch.ops.aten


def cat(emit: Emitter, node: fx.Node, tensors: Sequence[Tensorial], axis: int = 0) -> Row | Blocks | None:
    """Concatenation is what makes blocks. Parts of another type are cast to that of the whole."""
    rank = len(tensors[0].shape)
    axis = normal_axis(axis, rank)
    parts: list[Row] = []
    for value in tensors:
        if isinstance(value, Static):
            return None
        if isinstance(value, Blocks) and value.axis == axis:
            parts.extend(value.parts)
        else:
            parts.append(value if isinstance(value, Row) else emit.as_item(value))
    if any(emit.batch_axis(part) in (axis, None) for part in parts):
        return None
    return emit.blocks(axis, [_cast(emit, part, node.meta["val"].dtype) for part in parts])


def _cast(emit: Emitter, x: Row, dtype: torch.dtype) -> Row:
    if x.dtype == dtype:
        return x
    return emit.emit(x.side, aten._to_copy.default, x, shape=x.shape, dtype=dtype, keywords={"dtype": dtype})


def stack(emit: Emitter, node: fx.Node, tensors: Sequence[Tensorial], axis: int = 0) -> Row | Blocks | None:
    """A concatenation along a new axis."""
    rank = len(tensors[0].shape) + 1
    axis = normal_axis(axis, rank)
    widened = []
    for value in tensors:
        if isinstance(value, Static):
            return None
        whole = emit.as_item(value) if isinstance(value, Blocks) else value
        shape = (*whole.shape[:axis], 1, *whole.shape[axis:])
        widened.append(emit.emit(whole.side, aten.unsqueeze.default, whole, axis, shape=shape, dtype=whole.dtype))
    return cat(emit, node, widened, axis)


def view(emit: Emitter, node: fx.Node, x: Any, sizes: Sequence[Size]) -> Row | Blocks | None:
    """A reshape of blocks: right when every block boundary is a boundary of the new shape too.

    The axes are matched in groups of equal size; within its group the block axis must be the outermost (else a block
    is not contiguous), and the blocks then lie on the outermost axis of the new group:

        [M, N, d], blocks of N  ->  [M, N d], blocks x d  ->  [M, N, d]
    """
    if not isinstance(x, Blocks):
        return None
    out: Shape = tuple(size if isinstance(size, int) else size.node.expr for size in node.meta["val"].shape)
    group = _group_of(x.shape, out, x.axis)
    if group is None:
        return None
    (first, last), (out_first, out_last) = group
    if math.prod(_ints(x.shape[first : x.axis])) != 1:
        return None
    inner = math.prod(_ints(x.shape[x.axis + 1 : last]))
    axis = next((a for a in range(out_first, out_last) if out[a] != 1), out_first)
    out_inner = math.prod(_ints(out[axis + 1 : out_last]))
    aligned = _align(emit, x, inner, out_inner)
    if aligned is None:
        return None
    parts = []
    for part in aligned:
        size = int(part.shape[x.axis]) * inner // out_inner
        shape = resized(out, axis, size)
        parts.append(emit.emit(part.side, aten.reshape.default, part, list(shape), shape=shape, dtype=part.dtype))
    return emit.blocks(axis, parts)


def _ints(sizes: Sequence[Size]) -> list[int]:
    return [int(size) for size in sizes]


def _group_of(shape: Shape, out: Shape, axis: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The smallest ranges of old and new axes that hold the same elements and contain `axis`."""
    i = j = 0
    while i < len(shape):
        i_end, j_end = i + 1, j + 1
        if j >= len(out):
            return None
        left, right = shape[i], out[j]
        while left != right:
            if not isinstance(left, int) or not isinstance(right, int):
                return None  # the batch axis would be merged with another
            if left < right:
                if i_end >= len(shape) or not isinstance(shape[i_end], int):
                    return None
                left *= int(shape[i_end])
                i_end += 1
            else:
                if j_end >= len(out) or not isinstance(out[j_end], int):
                    return None
                right *= int(out[j_end])
                j_end += 1
        if i <= axis < i_end:
            return (i, i_end), (j, j_end)
        i, j = i_end, j_end
    return None


def _align(emit: Emitter, x: Blocks, inner: int, out_inner: int) -> list[Row] | None:
    """Parts whose boundaries, in elements of the group, are multiples of `out_inner`; straddling ones become items."""
    if inner % out_inner == 0:
        return list(x.parts)
    if out_inner % inner:
        return None
    step = out_inner // inner
    edges = [0, *accumulate(x.sizes)]
    aligned: list[Row] = []
    pending: list[Row] = []  # pieces since the last boundary that is aligned
    for part, low, high in zip(x.parts, edges, edges[1:], strict=False):
        down, up = low + (-low) % step, high - high % step  # the aligned inside of this part
        if pending and up < down:  # still inside one step
            pending.append(narrow(emit, part, x.axis, 0, high - low))
            continue
        if pending:
            pending.append(narrow(emit, part, x.axis, 0, down - low))
            aligned.append(emit.join([emit.as_item(piece) for piece in pending], x.axis))
            pending = []
        if up > down:
            aligned.append(narrow(emit, part, x.axis, down - low, up - low))
        if high > up:
            pending.append(narrow(emit, part, x.axis, up - low, high - low))
    if pending:
        return None
    return aligned


def pad(
    emit: Emitter, node: fx.Node, x: Any, padding: Sequence[int], mode: str = "constant", value: Any = None
) -> Row | Blocks | None:
    """Constant padding behind the last axis: one more block, the same for every row, made once per user."""
    if not isinstance(x, Blocks) or mode != "constant" or len(padding) != 2 or padding[0] != 0 or padding[1] <= 0:
        return None
    last = len(x.shape) - 1
    shape = resized(x.shape, last, int(padding[1]))
    kind = {"dtype": x.dtype}
    behind = emit.emit("user", aten.full.default, list(shape), value or 0.0, shape=shape, dtype=x.dtype, keywords=kind)
    return cat(emit, node, [x, behind], last)


def unsqueeze(emit: Emitter, node: fx.Node, x: Any, axis: int) -> Row | Blocks | None:
    if not isinstance(x, Blocks):
        return None
    axis = normal_axis(axis, len(x.shape) + 1)
    parts = [
        emit.emit(p.side, node.target, p, axis, shape=(*p.shape[:axis], 1, *p.shape[axis:]), dtype=p.dtype)
        for p in x.parts
    ]
    return emit.blocks(x.axis + (axis <= x.axis), parts)


def squeeze(emit: Emitter, node: fx.Node, x: Any, axis: int) -> Row | Blocks | None:
    if not isinstance(x, Blocks):
        return None
    axis = normal_axis(axis, len(x.shape))
    if axis == x.axis or x.shape[axis] != 1:
        return None
    parts = [
        emit.emit(p.side, node.target, p, axis, shape=(*p.shape[:axis], *p.shape[axis + 1 :]), dtype=p.dtype)
        for p in x.parts
    ]
    return emit.blocks(x.axis - (axis < x.axis), parts)


def permute(emit: Emitter, node: fx.Node, x: Any, order: Sequence[int]) -> Row | Blocks | None:
    if not isinstance(x, Blocks):
        return None
    order = [normal_axis(axis, len(x.shape)) for axis in order]
    parts = [
        emit.emit(p.side, aten.permute.default, p, order, shape=tuple(p.shape[axis] for axis in order), dtype=p.dtype)
        for p in x.parts
    ]
    return emit.blocks(order.index(x.axis), parts)


def transpose(emit: Emitter, node: fx.Node, x: Any, a: int, b: int) -> Row | Blocks | None:
    if not isinstance(x, Blocks):
        return None
    order = list(range(len(x.shape)))
    a, b = normal_axis(a, len(order)), normal_axis(b, len(order))
    order[a], order[b] = order[b], order[a]
    return permute(emit, node, x, order)


def expand(emit: Emitter, node: fx.Node, x: Any, sizes: Sequence[Size]) -> Any:
    if not isinstance(x, Blocks) or len(sizes) != len(x.shape):
        return None
    parts = []
    for part in x.parts:
        wanted = resized(tuple(sizes), x.axis, -1)
        shape = tuple(own if size == -1 else size for own, size in zip(part.shape, wanted, strict=True))
        parts.append(emit.emit(part.side, node.target, part, list(wanted), shape=shape, dtype=part.dtype))
    return emit.blocks(x.axis, parts)


def slice_(
    emit: Emitter, node: fx.Node, x: Any, axis: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    if not isinstance(x, Blocks) or step != 1:
        return None
    axis = normal_axis(axis, len(x.shape))
    size = x.shape[axis]
    if not isinstance(size, int):
        return None
    low, high, _ = slice(start, end).indices(size)
    high = max(low, high)
    if axis != x.axis:
        return emit.blocks(x.axis, [narrow(emit, part, axis, low, high) for part in x.parts])
    edges = [0, *accumulate(x.sizes)]
    parts = [
        narrow(emit, part, axis, max(low, first) - first, min(high, last) - first)
        for part, first, last in zip(x.parts, edges, edges[1:], strict=False)
        if max(low, first) < min(high, last)
    ]
    return emit.blocks(axis, parts) if parts else None


def select(emit: Emitter, node: fx.Node, x: Any, axis: int, index: int) -> Any:
    if not isinstance(x, Blocks):
        return None
    axis = normal_axis(axis, len(x.shape))
    size = x.shape[axis]
    if not isinstance(size, int):
        return None
    index += size if index < 0 else 0
    one = slice_(emit, node, x, axis, index, index + 1)

    def drop(part: Row) -> Row:
        shape = (*part.shape[:axis], *part.shape[axis + 1 :])
        return emit.emit(part.side, aten.squeeze.dim, part, axis, shape=shape, dtype=part.dtype)

    if isinstance(one, Row):
        return drop(one)
    return emit.blocks(one.axis - (axis < one.axis), [drop(part) for part in one.parts])


def split_with_sizes(emit: Emitter, node: fx.Node, x: Any, sizes: Sequence[int], axis: int = 0) -> Any:
    if not isinstance(x, Blocks):
        return None
    edges = [0, *accumulate(int(size) for size in sizes)]
    pieces = [slice_(emit, node, x, axis, low, high) for low, high in pairwise(edges)]
    return None if None in pieces else pieces


def split(emit: Emitter, node: fx.Node, x: Any, size: int, axis: int = 0) -> Any:
    if not isinstance(x, Blocks):
        return None
    total = x.shape[normal_axis(axis, len(x.shape))]
    if not isinstance(total, int):
        return None
    return split_with_sizes(emit, node, x, [min(size, total - low) for low in range(0, total, size)], axis)


def chunk(emit: Emitter, node: fx.Node, x: Any, chunks: int, axis: int = 0) -> Any:
    if not isinstance(x, Blocks):
        return None
    total = x.shape[normal_axis(axis, len(x.shape))]
    return split(emit, node, x, -(-total // chunks), axis) if isinstance(total, int) else None


def unbind(emit: Emitter, node: fx.Node, x: Any, axis: int = 0) -> Any:
    if not isinstance(x, Blocks):
        return None
    size = x.shape[normal_axis(axis, len(x.shape))]
    return [select(emit, node, x, axis, index) for index in range(size)] if isinstance(size, int) else None


RULES: dict[Any, Any] = {
    aten.cat.default: cat,
    aten.stack.default: stack,
    aten.view.default: view,
    aten.reshape.default: view,
    aten._unsafe_view.default: view,
    aten.pad.default: pad,
    aten.unsqueeze.default: unsqueeze,
    aten.squeeze.dim: squeeze,
    aten.permute.default: permute,
    aten.transpose.int: transpose,
    aten.expand.default: expand,
    aten.slice.Tensor: slice_,
    aten.select.int: select,
    aten.split_with_sizes.default: split_with_sizes,
    aten.split.Tensor: split,
    aten.chunk.default: chunk,
    aten.unbind.int: unbind,
}
