"""Composite operators in terms of simple ones: the same numbers as PyTorch's own, at every edge."""

import pytest
import torch
import torch.nn.functional as F

from tests.split.harness import randn
from triton_ads.split import lower

Q, K, V = randn(2, 3, 4, 8, seed=1), randn(2, 3, 5, 8, seed=2), randn(2, 3, 5, 6, seed=3)
SEEN = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)  # the second row sees no key
MASKS = {
    "none": None,
    "of keys": SEEN[:, None, None],
    "of queries and keys": SEEN[0] | torch.eye(4, 5, dtype=torch.bool),
    "to add": torch.where(SEEN[:, None, None], 0.0, -torch.inf),
    "to add, finite": torch.where(SEEN[:, None, None], 0.5, -1e4),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("scale", [None, 0.3])
def test_attention(mask: str, scale: float | None) -> None:
    expected = F.scaled_dot_product_attention(Q, K, V, MASKS[mask], scale=scale)
    found = lower.scaled_dot_product_attention(Q, K, V, MASKS[mask], scale=scale)
    torch.testing.assert_close(found, expected)
    if mask in ("of keys", "to add"):
        assert not found[1].any()  # zeros, not the mean of the values


def test_causal_attention() -> None:
    expected = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
    torch.testing.assert_close(lower.scaled_dot_product_attention(Q, K, V, is_causal=True), expected)


def test_attention_that_drops_stays_as_it_is() -> None:
    assert lower.scaled_dot_product_attention(Q, K, V, None, 0.1) is NotImplemented


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0.5, 2)])
def test_products_that_add(beta: float, alpha: float) -> None:
    x, a, b = randn(3, 2, 5, seed=1), randn(3, 2, 4, seed=2), randn(3, 4, 5, seed=3)
    given = {"beta": beta, "alpha": alpha}
    torch.testing.assert_close(lower.baddbmm(x, a, b, **given), torch.baddbmm(x, a, b, **given))
    torch.testing.assert_close(lower.addmm(x[0], a[0], b[0], **given), torch.addmm(x[0], a[0], b[0], **given))


def test_norms_and_cosines() -> None:
    a, b = randn(3, 4, seed=1), randn(3, 4, seed=2)
    a[0] = 0
    torch.testing.assert_close(lower.linalg_vector_norm(a, 2, [-1], True), torch.linalg.vector_norm(a, 2, [-1], True))
    torch.testing.assert_close(lower.cosine_similarity(a, b, 1), F.cosine_similarity(a, b))
    assert lower.linalg_vector_norm(a, 1, [1]) is NotImplemented


@pytest.mark.parametrize("leading", [(5,), (5, 7)])
def test_bilinear(leading: tuple[int, ...]) -> None:
    a, b, weight, bias = (
        randn(*leading, 3, seed=1),
        randn(*leading, 2, seed=2),
        randn(4, 3, 2, seed=3),
        randn(4, seed=4),
    )
    torch.testing.assert_close(lower.bilinear(a, b, weight, bias), F.bilinear(a, b, weight, bias))
    torch.testing.assert_close(lower.bilinear(a, b, weight), F.bilinear(a, b, weight))


def test_products_over_pairs_of_axes() -> None:
    a, b = randn(5, 2, 3, seed=1), randn(3, 2, 4, seed=2)
    for axes in ([1, 2], [1, 0]), ([-1], [0]), ([1], [1]):
        torch.testing.assert_close(lower.tensordot(a, b, *axes), torch.tensordot(a, b, dims=axes))


def test_other_names_of_cat() -> None:
    vector, matrix, cube = randn(5, seed=1), randn(5, 2, seed=2), randn(5, 2, 3, seed=3)
    for tensors in ([vector, vector], [matrix, matrix], [cube, cube]):
        assert torch.equal(lower.hstack(tensors), torch.hstack(tensors))
        assert torch.equal(lower.concat(tensors, -1), torch.concat(tensors, -1))
    for tensors in ([vector, matrix, vector], [cube, cube]):
        assert torch.equal(lower.column_stack(tensors), torch.column_stack(tensors))
