"""Operators that stand for several: rewritten while exporting, in terms of those that have rules.

Each function does what its operator does in eager PyTorch, to the last edge; what it does not cover stays as it is.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

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


def einsum(equation: str, operands: Sequence[Tensor], *, path: Any = None) -> Any:
    """Two operands without repeated letters or dots: a matrix product whose batch axis stays an axis of its own.

    Letters of both operands are shared when the result has them and contracted when not; the others are free:

        [shared, free a, contracted] @ [shared, contracted, free b] -> [shared, free a, free b]
    """
    equation = equation.replace(" ", "")
    if len(operands) != 2 or "->" not in equation or "." in equation:
        return NotImplemented
    (left, right), out = equation.split("->")[0].split(","), equation.split("->")[1]
    a, b = operands
    if any(len(set(letters)) != len(letters) for letters in (left, right, out)):
        return NotImplemented
    for letter in set(left) ^ set(right):  # of one operand alone and not in the result: summed first
        if letter not in out and letter in left:
            a, left = a.sum(left.index(letter)), left.replace(letter, "")
        elif letter not in out:
            b, right = b.sum(right.index(letter)), right.replace(letter, "")
    shared = [letter for letter in out if letter in left and letter in right]
    contracted = [letter for letter in left if letter in right and letter not in out]
    free_a = [letter for letter in left if letter not in right]
    free_b = [letter for letter in right if letter not in left]
    if not contracted or (not (free_a or free_b) and len(shared) > 1):
        product = _aligned(a, left, [*out, *contracted]) * _aligned(b, right, [*out, *contracted])
        return product.sum(list(range(-len(contracted), 0))) if contracted else product
    size = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}
    keep_free = not shared  # without shared axes the free ones of the left may stay as they are
    a = _grouped(a, left, shared, free_a if keep_free and free_a else [free_a], [contracted], size)
    b = _grouped(b, right, shared, [contracted], [free_b], size)
    found = torch.matmul(a, b).reshape([size[letter] for letter in (*shared, *free_a, *free_b)])
    have = [*shared, *free_a, *free_b]
    return found.permute([have.index(letter) for letter in out])


def _aligned(x: Tensor, letters: str, wanted: Sequence[str]) -> Tensor:
    """`x` with its axes in the order of `wanted`, and an axis of size 1 for each letter that it lacks."""
    x = x.permute([letters.index(letter) for letter in wanted if letter in letters])
    for axis, letter in enumerate(wanted):
        if letter not in letters:
            x = x.unsqueeze(axis)
    return x


def _grouped(
    x: Tensor, letters: str, shared: list[str], first: list[Any], second: list[Any], size: dict[str, Any]
) -> Tensor:
    """`x` as [shared axes, axes of `first`, axes of `second`]; a list inside these becomes one axis."""
    order = [*shared, *(letter for group in (*first, *second) for letter in group)]
    x = x.permute([letters.index(letter) for letter in order])
    groups: list[Any] = [*shared, *first, *second]
    if all(len(group) == 1 for group in groups):
        return x
    sizes = []
    for group in groups:
        total = 1
        for letter in group:
            total = total * size[letter]
        sizes.append(total)
    return x.reshape(sizes)


LOWERED: dict[Any, Callable[..., Any]] = {
    aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
    aten.baddbmm.default: baddbmm,
    aten.addmm.default: addmm,
    aten.einsum.default: einsum,
    aten.linalg_vector_norm.default: linalg_vector_norm,
    aten.cosine_similarity.default: cosine_similarity,
}
