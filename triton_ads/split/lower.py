"""Operators that stand for several: rewritten while exporting, in terms of those that have rules.

Each function does what its operator does in eager PyTorch, to the last edge; what it does not cover stays as it is.
"""

import math
from collections.abc import Callable, Sequence
from string import ascii_letters
from typing import Any

import torch
from torch import Tensor

from triton_ads.split.einsum import einsum

aten = torch.ops.aten


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """query [..., Q, E], key [..., T, E], value [..., T, V] -> [..., Q, V]; a query that sees no key reads zeros."""
    if dropout_p or enable_gqa:
        return NotImplemented
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(query * scale, key.transpose(-2, -1))
    if attn_mask is None:
        return torch.matmul(torch.softmax(scores, -1), value)
    if attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, -math.inf)
        blind = attn_mask.logical_not().all(-1, keepdim=True)
    else:
        scores = scores + attn_mask
        blind = (attn_mask == -math.inf).all(-1, keepdim=True)
    read = torch.matmul(torch.softmax(scores, -1), value)  # NaN for a blind query, which `where` drops
    return torch.where(blind, 0.0, read)


def baddbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta x + alpha a b`."""
    return _scaled(x, beta) + _scaled(torch.bmm(a, b), alpha)


def addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta x + alpha a b`."""
    return _scaled(x, beta) + _scaled(torch.mm(a, b), alpha)


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else x * factor


def linalg_vector_norm(
    x: Tensor, ord: float = 2, dim: Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The Euclidean norm over given axes."""
    if ord != 2 or dim is None or dtype is not None:
        return NotImplemented
    return (x * x).sum(list(dim), keepdim).sqrt()


def cosine_similarity(a: Tensor, b: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """`a b / (max(|a|, eps) max(|b|, eps))`."""
    product = (a * b).sum(dim)
    return product / ((a * a).sum(dim).sqrt().clamp(min=eps) * (b * b).sum(dim).sqrt().clamp(min=eps))


def bilinear(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """a [..., I], b [..., J], weight [O, I, J] -> `a W_o b + bias_o` [..., O]; what `a` makes of the weights is b's."""
    outputs, first, second = weight.shape
    matrix = torch.matmul(a, weight.permute(1, 0, 2).reshape(first, outputs * second))
    product = torch.matmul(matrix.reshape([*a.shape[:-1], outputs, second]), b.unsqueeze(-1)).squeeze(-1)
    return product if bias is None else product + bias


def hstack(tensors: list[Tensor]) -> Tensor:
    """Side by side along axis 1; vectors along their one axis."""
    return torch.cat(tensors, 0 if tensors[0].dim() < 2 else 1)


def column_stack(tensors: list[Tensor]) -> Tensor:
    """Side by side along axis 1; a vector is a column."""
    return torch.cat([x.unsqueeze(1) if x.dim() == 1 else x for x in tensors], 1)


def concat(tensors: list[Tensor], dim: int = 0) -> Tensor:
    """Another name of cat."""
    return torch.cat(tensors, dim)


def tensordot(a: Tensor, b: Tensor, dims_self: Sequence[int], dims_other: Sequence[int]) -> Any:
    """The sum of products over pairs of axes, as einsum has it: the other axes of `a`, then those of `b`."""
    left, right = list(ascii_letters[: a.dim()]), list(ascii_letters[a.dim() : a.dim() + b.dim()])
    for axis, other in zip(dims_self, dims_other, strict=True):
        right[other] = left[axis]
    out = [letter for letter in (*left, *right) if (letter in left) != (letter in right)]
    return einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", [a, b])


LOWERED: dict[Any, Callable[..., Any]] = {
    aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
    aten.baddbmm.default: baddbmm,
    aten.addmm.default: addmm,
    aten.einsum.default: einsum,
    aten.linalg_vector_norm.default: linalg_vector_norm,
    aten.cosine_similarity.default: cosine_similarity,
    aten.bilinear.default: bilinear,
    aten.tensordot.default: tensordot,
    aten.hstack.default: hstack,
    aten.column_stack.default: column_stack,
    aten.concat.default: concat,
    aten.concatenate.default: concat,
}
