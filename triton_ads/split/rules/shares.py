"""A linear layer as a sum of linear layers, one for each ingredient of what it reads.

The ingredients of a value are found by looking through blocks, concatenations, sums and expansions:

    W [q, k, q - k, q * k]  =  (W1 + W3) q  +  (W2 - W3) k  +  W4 (q * k)        q of the item, k of the user

The first layer of DIN's activation unit: q has no time axis, k is the user's, so one of four products is left per
event and candidate. Weights of an ingredient that occurs twice are added up now.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from triton_ads.split.emit import Emitter
from triton_ads.split.rules import pointwise
from triton_ads.split.values import Blocks, Chosen, Joined, Row, Shape, Side, Static, Terms, resized

aten = torch.ops.aten

#: Choosing an element costs about as much as one more input feature of a layer of some hundred outputs (measured).
_CHOICE = 1


@dataclass(frozen=True)
class _Ingredient:
    """`factor * row`, at the features [start, start + size) of the whole; a `row` of one feature broadcasts.

    With `at`, the features of the whole are these of the row.
    """

    row: Row
    start: int
    size: int
    factor: float
    at: tuple[int, ...] = ()


def linear(emit: Emitter, x: Row | Blocks, weight: torch.Tensor, bias: Any) -> Row | Blocks:
    """`x W^T + b` over the last axis, W [out, in]; `x` has ingredients of both sides."""
    last, out = len(x.shape) - 1, weight.shape[0]
    found = _ingredients(emit, x) if worth_it(emit, x) else _plain(x)
    weights = _weights(found, weight)
    products: list[Row] = []
    for row_group in _groups([ingredient.row for ingredient in found]):
        whole = emit.join(row_group, last)
        own = Static(torch.cat([weights[row.node] for row in row_group], 1))
        own_bias = bias if not products else None  # users come first: added once per user
        shape = resized(whole.shape, last, out)
        products.append(emit.emit(whole.side, aten.linear.default, whole, own, own_bias, shape=shape, dtype=x.dtype))
    return _sum(emit, products, resized(x.shape, last, out))


def worth_it(emit: Emitter, x: Row | Blocks) -> bool:
    """Whether the ingredients leave less work per candidate than the value as it is."""
    return _work(_ingredients(emit, x)) < _work(_plain(x))


def _plain(x: Row | Blocks) -> list[_Ingredient]:
    found, start = [], 0
    for part in x.parts if isinstance(x, Blocks) else (x,):
        size = int(part.shape[-1])
        found.append(_Ingredient(part, start, size, 1.0))
        start += size
    return found


def _ingredients(emit: Emitter, x: Row | Blocks) -> list[_Ingredient]:
    found = []
    for part in _plain(x):
        found += _inside(emit, part)
    return found


def _inside(emit: Emitter, outer: _Ingredient) -> list[_Ingredient]:
    row, made = outer.row, outer.row.made
    found = []
    if isinstance(made, Joined) and made.axis == len(row.shape) - 1:
        start = outer.start
        for part in made.parts:
            size = int(part.shape[-1])
            found += _inside(emit, _Ingredient(part, start, size, outer.factor))
            start += size
        return found
    if isinstance(made, Terms):
        for term, factor in made.terms:
            found += _inside(emit, _Ingredient(term, outer.start, outer.size, outer.factor * factor))
        return found
    if isinstance(made, Chosen):  # weights of zero are cheaper than choosing
        return [_Ingredient(made.base, outer.start, outer.size, outer.factor, made.at)]
    base = emit.unstretched(row)
    if base is row:
        return [outer]
    return _inside(emit, _Ingredient(base, outer.start, outer.size, outer.factor))


def _work(found: list[_Ingredient]) -> int:
    """Multiply-adds per candidate and output feature."""
    items = {i.row.node: i.row for i in found if i.row.side == "item"}
    work = sum(math.prod(size for size in row.shape if isinstance(size, int)) for row in items.values())
    return work + sum(_CHOICE * len(i.row.made.at) for i in found if isinstance(i.row.made, Chosen))


def _weights(found: list[_Ingredient], weight: torch.Tensor) -> dict[Any, torch.Tensor]:
    """The weights that meet each row, added up over its occurrences."""
    weights: dict[Any, torch.Tensor] = {}
    for i in found:
        columns = weight.narrow(1, i.start, i.size)
        if i.at:
            width = int(i.row.shape[-1])
            columns = weight.new_zeros(len(weight), width).index_add_(1, torch.tensor(i.at), columns)
        elif i.row.shape[-1] != i.size:
            columns = columns.sum(1, keepdim=True)
        columns = columns if i.factor == 1 else columns * i.factor
        weights[i.row.node] = weights[i.row.node] + columns if i.row.node in weights else columns
    return weights


def _groups(rows: list[Row]) -> list[list[Row]]:
    """Different rows that can be multiplied side by side: of one side and shape; users first, then the largest."""
    groups: dict[tuple[Side, Shape], dict[Any, Row]] = {}
    for row in rows:
        groups.setdefault((row.side, row.shape[:-1]), {})[row.node] = row
    order = sorted(groups, key=lambda key: (key[0] == "item", -math.prod(s for s in key[1] if isinstance(s, int))))
    return [list(groups[key].values()) for key in order]


def _sum(emit: Emitter, products: list[Row], shape: Shape) -> Row | Blocks:
    """The user's products are added up once per user, then to the largest of the item's."""
    users = [product for product in products if product.side == "user"]
    total, *others = [product for product in products if product.side == "item"]
    if users:
        others.append(_added(emit, users))
    total = _added(emit, [total, *others])
    assert total.shape == shape
    return total


def _added(emit: Emitter, values: list[Row]) -> Row:
    total = values[0]
    for value in values[1:]:
        shape = tuple(b if a == 1 else a for a, b in zip(total.shape, value.shape, strict=True))
        added = pointwise.apply(emit, aten.add.Tensor, [total, value], {}, shape, total.dtype)
        assert isinstance(added, Row)
        total = added
    return total
