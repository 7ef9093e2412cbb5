"""Products with static weights: the user's share of a sum is computed once per user.

W [u; i] + b  =  (W_u u + b)  +  W_i i        blocks along the contracted axis: smaller products and a sum (shares.py)
blocks along another axis                     one product per block
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.rules import pointwise, shares
from triton_ads.split.values import Blocks, Row, Shape, Side, Static, resized

aten = torch.ops.aten


def linear(emit: Emitter, node: fx.Node, x: Any, weight: Any, bias: Any = None) -> Row | Blocks | None:
    """`x W^T + b`, W [out, in]."""
    if not (isinstance(x, Blocks) and isinstance(weight, Static)) or weight.tensor.dim() != 2:
        return None
    last, out = len(x.shape) - 1, weight.tensor.shape[0]
    if x.axis == last:
        return shares.linear(emit, x, weight.tensor, bias)
    parts = [
        emit.emit(p.side, aten.linear.default, p, weight, bias, shape=resized(p.shape, last, out), dtype=p.dtype)
        for p in x.parts
    ]
    return emit.blocks(x.axis, parts)


def distributed(emit: Emitter, node: fx.Node, x: Any, weight: Any, bias: Any = None) -> Row | Blocks | None:
    """`W (u + i) = W u + W i`, for an item's value that was made of a user's: where that spares the item work."""
    if not (isinstance(x, Row) and x.made and isinstance(weight, Static)) or weight.tensor.dim() != 2:
        return None
    return shares.linear(emit, x, weight.tensor, bias) if shares.worth_it(emit, x) else None


def matmul(emit: Emitter, node: fx.Node, a: Any, b: Any) -> Row | Blocks | None:
    """`a @ b` where one of them is static; a static may have leading axes, as the weights of a product per token."""
    if isinstance(a, Blocks) and isinstance(b, Static):
        return _blocks_by_static(emit, a, b)
    if isinstance(a, Static) and isinstance(b, Blocks):
        return _static_by_blocks(emit, a, b)
    return None


def _blocks_by_static(emit: Emitter, a: Blocks, b: Static) -> Row | Blocks | None:
    if not _broadcasts(b, a.shape):
        return None
    out = b.tensor.shape[-1]
    if a.axis == len(a.shape) - 1:  # contracted
        shape = (*a.shape[:-1], out)

        def product(side: Side, share: Row, columns: torch.Tensor) -> Row:
            own = Static(b.tensor.index_select(-2, columns))
            return emit.emit(side, aten.matmul.default, share, own, shape=shape, dtype=a.dtype)

        return _sum_of_shares(emit, a, product, shape)

    def block(part: Row, own: Static) -> Row:
        return emit.emit(part.side, aten.matmul.default, part, own, shape=(*part.shape[:-1], out), dtype=a.dtype)

    return _block_by_block(emit, a, b, block)


def _static_by_blocks(emit: Emitter, a: Static, b: Blocks) -> Row | Blocks | None:
    if not _broadcasts(a, b.shape):
        return None
    out = a.tensor.shape[-2]
    if b.axis == len(b.shape) - 2:  # contracted
        shape = resized(b.shape, b.axis, out)

        def product(side: Side, share: Row, columns: torch.Tensor) -> Row:
            own = Static(a.tensor.index_select(-1, columns))
            return emit.emit(side, aten.matmul.default, own, share, shape=shape, dtype=b.dtype)

        return _sum_of_shares(emit, b, product, shape)

    def block(part: Row, own: Static) -> Row:
        shape = resized(part.shape, len(part.shape) - 2, out)
        return emit.emit(part.side, aten.matmul.default, own, part, shape=shape, dtype=b.dtype)

    return _block_by_block(emit, b, a, block)


def _block_by_block(emit: Emitter, x: Blocks, weight: Static, product: Callable[[Row, Static], Row]) -> Row | Blocks:
    """A product per block, with the weights that meet it."""
    parts, start = [], 0
    for part, size in zip(x.parts, x.sizes, strict=True):
        parts.append(product(part, _leading_share(weight, len(x.shape) - x.axis, start, size)))
        start += size
    return emit.blocks(x.axis, parts)


def _broadcasts(weight: Static, shape: Shape) -> bool:
    """Whether a static matrix leaves the leading axes of a value of `shape` as they are."""
    leading = weight.tensor.shape[:-2]
    if weight.tensor.dim() < 2 or len(leading) > len(shape) - 2:
        return False
    return all(size in (1, of) for size, of in zip(leading[::-1], shape[:-2][::-1], strict=False))


def _leading_share(weight: Static, from_right: int, start: int, size: int) -> Static:
    """The weights that meet a block on a leading axis; all of them where the axis is broadcast or not leading.

    `from_right` counts the block axis from the last one: 1 and 2 are the matrix, 3 and more are leading.
    """
    axis = weight.tensor.dim() - from_right
    if from_right < 3 or axis < 0 or weight.tensor.shape[axis] == 1:
        return weight
    return Static(weight.tensor.narrow(axis, start, size))


def _sum_of_shares(emit: Emitter, x: Blocks, product: Any, shape: Shape) -> Row | Blocks:
    """One product per side over all blocks of that side, then their sum."""
    shares = []
    for side in ("user", "item"):
        parts = [part for part in x.parts if part.side == side]
        columns, start = [], 0
        for part, size in zip(x.parts, x.sizes, strict=True):
            if part.side == side:
                columns.append(torch.arange(start, start + size))
            start += size
        shares.append(product(side, emit.join(parts, x.axis), torch.cat(columns)))
    user, item = shares
    return pointwise.apply(emit, aten.add.Tensor, [item, user], {}, shape, x.dtype)


RULES: dict[Any, Any] = {aten.linear.default: linear}
#: For an item's value that was made of a user's.
REWRITES: dict[Any, Any] = {aten.linear.default: distributed}
