"""Products of two values that depend on rows.

A matrix of the user times rows of items is computed per tile, with the P rows of the tile side by side in one matrix,
so that the user's matrix (keys and values of a history) is read once per tile and never copied per candidate:

    items [M, r, q, k] -> [C, r, P q, k]  @  user [C, r, k, n]  ->  [C, r, P q, n] -> [M, r, q, n]
"""

import operator
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.rules import linear
from triton_ads.split.values import Blocks, Grid, Row, Static

aten = torch.ops.aten


def matmul(emit: Emitter, node: fx.Node, a: Any, b: Any) -> Row | Blocks | None:
    """`a @ b` of any values."""
    if isinstance(a, Static) or isinstance(b, Static):
        return linear.matmul(emit, node, a, b)
    rank = len(a.shape)
    if isinstance(a, Blocks) and isinstance(b, Row) and a.axis == rank - 2:
        parts = [row_product(emit, part, b) for part in a.parts]
        return None if None in parts else emit.blocks(a.axis, [p for p in parts if p is not None])
    if isinstance(b, Blocks) and isinstance(a, Row) and b.axis == len(b.shape) - 1:
        parts = [row_product(emit, a, part) for part in b.parts]
        return None if None in parts else emit.blocks(b.axis, [p for p in parts if p is not None])
    if isinstance(a, Row) and isinstance(b, Row):
        return row_product(emit, a, b)
    emit.reason = "vectors of both sides meet vectors of both sides in one product"
    if rank == 3 and len(b.shape) == 3:
        whole = row_product(emit, emit.as_item(a), emit.as_item(b))
        return replace(whole, made=Grid(a, b)) if whole else None
    return None


def row_product(emit: Emitter, a: Row, b: Row) -> Row | None:
    """`a @ b` of values of one side each; None where a product per tile cannot be written."""
    if len(a.shape) != len(b.shape) or len(a.shape) < 3 or emit.batch_axis(a) != 0 or emit.batch_axis(b) != 0:
        return None
    if a.shape[1:-2] != b.shape[1:-2]:
        return None
    shape = (*a.shape[:-1], b.shape[-1])
    if a.side == b.side:
        return emit.emit(a.side, aten.matmul.default, a, b, shape=shape, dtype=a.dtype)
    if a.side == "item":
        return _items_by_user(emit, a, b)
    transposed = _items_by_user(emit, _transpose(emit, b), _transpose(emit, a))  # (a b)' = b' a'
    return _transpose(emit, transposed)


def _transpose(emit: Emitter, x: Row) -> Row:
    shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
    return emit.emit(x.side, aten.transpose.int, x, -2, -1, shape=shape, dtype=x.dtype)


def _items_by_user(emit: Emitter, a: Row, b: Row) -> Row:
    """The product per tile: a [M, r, q, k] of items, b [M, r, k, n] of users."""
    item = emit.item
    lead, (q, k), n = list(a.shape[1:-2]), a.shape[-2:], b.shape[-1]
    tiles, candidates = emit.tiles, emit.candidates
    wide = item.call(operator.mul, candidates, q) if q != 1 else candidates
    axes = list(range(len(lead)))
    rows_CrPqk = emit.unfold(a)
    if lead:
        order = [0, *(2 + axis for axis in axes), 1, 2 + len(lead), 3 + len(lead)]
        rows_CrPqk = item.call(aten.permute.default, rows_CrPqk, order)
    left = item.call(aten.reshape.default, rows_CrPqk, [tiles, *lead, wide, k])
    product = item.call(aten.matmul.default, left, emit.by_tile(b))
    if lead:
        product = item.call(aten.reshape.default, product, [tiles, *lead, candidates, q, n])
        order = [0, 1 + len(lead), *(1 + axis for axis in axes), 2 + len(lead), 3 + len(lead)]
        product = item.call(aten.permute.default, product, order)
    return emit.fold(product, (*a.shape[:-1], n), a.dtype)


RULES: dict[Any, Any] = {aten.matmul.default: matmul, aten.bmm.default: matmul, aten.mm.default: matmul, **linear.RULES}
