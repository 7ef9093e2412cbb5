"""Layers with a weight for each channel, which lie on axis 1: PReLU, and batch norm in evaluation mode."""

from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.rules import pointwise
from triton_ads.split.values import Blocks, Row, Static

aten = torch.ops.aten


def prelu(emit: Emitter, node: fx.Node, x: Any, weight: Any) -> Row | Blocks | None:
    """One weight makes it a leaky ReLU, which engines run faster; else `where(x > 0, x, weight x)`."""
    if not isinstance(x, Row | Blocks) or not isinstance(weight, Static):
        return None
    if weight.tensor.numel() == 1:
        slope = float(weight.tensor)
        return pointwise.apply(emit, aten.leaky_relu.default, [x, slope], {}, x.shape, x.dtype)
    if not isinstance(x, Blocks):
        return None
    channels = Static(weight.tensor.reshape(-1, *[1] * (len(x.shape) - 2)))
    scaled = pointwise.apply(emit, aten.mul.Tensor, [x, channels], {}, x.shape, x.dtype)
    positive = pointwise.apply(emit, aten.gt.Scalar, [x, 0], {}, x.shape, torch.bool)
    return pointwise.apply(emit, aten.where.self, [positive, x, scaled], {}, x.shape, x.dtype)


def batch_norm(emit: Emitter, node: fx.Node, x: Any, *statistics: Any) -> list[Any] | None:
    """weight, bias, mean and variance [channels], momentum, eps: per block, with the statistics of its channels."""
    if not isinstance(x, Blocks) or any(not isinstance(s, Static | None) for s in statistics[:4]):
        return None
    parts, start = [], 0
    for part, size in zip(x.parts, x.sizes, strict=True):
        own = statistics[:4]
        if x.axis == 1:
            own = tuple(s and Static(s.tensor.narrow(0, start, size)) for s in own)
            start += size
        many = emit.emit(part.side, node.target, part, *own, *statistics[4:], shape=(), dtype=x.dtype)
        parts.append(emit.item_of(many, 0, part.shape, part.dtype))
    return [emit.blocks(x.axis, parts), None, None]


RULES: dict[Any, Any] = {
    aten.prelu.default: prelu,
    aten._native_batch_norm_legit_no_training.default: batch_norm,
}
#: For values of one side.
REWRITES: dict[Any, Any] = {aten.prelu.default: prelu}
