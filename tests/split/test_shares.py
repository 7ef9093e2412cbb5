"""Linear layers over sums, products and choices of user and item: same scores, and less left for every candidate."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.split.harness import Model, randn, split_and_check
from triton_ads.split import Split
from triton_ads.split.report import report

M, T, D, H = 5, 7, 4, 6
INPUTS = {"user": randn(M, T, D, seed=1), "item": randn(M, D, seed=2)}
WEIGHTS = {"w": randn(H, 4 * D, seed=3), "b": randn(H, seed=4), "v": randn(H, D, seed=5)}


def left(model: Model, parts: Split) -> int:
    """Multiply-adds per candidate."""
    return report(parts, INPUTS).flops_item // 2


def stretched(m: Model, user: Tensor, item: Tensor) -> Tensor:
    return item.unsqueeze(1).expand(-1, user.shape[1], -1)


def score(x: Tensor) -> Tensor:
    return x.tanh().flatten(1).sum(1, keepdim=True)


#: Model, and the multiply-adds that a candidate needs.
CASES: dict[str, tuple[Callable[..., Tensor], int]] = {
    "the activation unit of DIN": (
        lambda m, user, item: score(
            F.linear(
                torch.cat(
                    [
                        stretched(m, user, item),
                        user,
                        stretched(m, user, item) - user,
                        stretched(m, user, item) * user,
                    ],
                    -1,
                ),
                m.w,
                m.b,
            )
        ),
        D * H + T * D * H,
    ),
    "repeated, not expanded": (
        lambda m, user, item: score(
            F.linear(torch.cat([item.unsqueeze(1).repeat(1, T, 1), user, user - item.unsqueeze(1), user], -1), m.w, m.b)
        ),
        D * H,
    ),
    "a difference alone": (lambda m, user, item: score(F.linear(user - item.unsqueeze(1), m.v, m.b)), D * H),
    "a sum with a factor": (
        lambda m, user, item: score(F.linear(torch.add(user, item.unsqueeze(1), alpha=0.3), m.v)),
        D * H,
    ),
    "a sum of sums": (
        lambda m, user, item: score(F.linear(user.cos() - (item.unsqueeze(1) + user), m.v, m.b)),
        D * H,
    ),
    "one number of an item over all features": (
        lambda m, user, item: score(F.linear(user + item[:, None, :1], m.v, m.b)),
        H,
    ),
    "the same item twice": (
        lambda m, user, item: score(F.linear(torch.cat([item, user[:, 0], item, item], 1), m.w)),
        D * H,
    ),
    "a sum whose item has all features": (
        lambda m, user, item: score(F.linear(item + user[:, 0], m.v, m.b)),
        D * H,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_linear_layers_distribute(name: str) -> None:
    function, expected = CASES[name]
    model = Model(function, **WEIGHTS)
    parts = split_and_check(model, INPUTS)
    assert parts.unshared == ()
    assert left(model, parts) == expected


def test_worked_number_of_a_difference() -> None:
    """W = [2 3], k = (10, 20), q = (1, 4): W (k - q) = 2 * 9 + 3 * 16 = 66; the state holds W k + b = 80 + 5."""
    model = Model(
        lambda m, user, item: F.linear(user - item.unsqueeze(1), m.w, m.b).flatten(1),
        w=torch.tensor([[2.0, 3.0]]),
        b=torch.tensor([5.0]),
    )
    parts = split_and_check(model, {"user": randn(3, 2, 2), "item": randn(3, 2)})
    state = parts.user(torch.tensor([[[10.0, 20.0], [0.0, 0.0]]]))
    assert state.tolist() == [[85.0, 5.0]]
    assert parts.item(state, torch.tensor([0]), torch.tensor([[[1.0, 4.0]]])).tolist() == [[[71.0, -9.0]]]


SUMS: dict[str, tuple[Callable[..., Tensor], int]] = {
    "weights of the item, keys of the user": (
        lambda m, user, item: (item @ m.v.t() @ m.t).unsqueeze(-1).mul(user).sum(1).tanh(),
        D * H + H * T + T * D,
    ),
    "kept axis": (lambda m, user, item: (item.unsqueeze(1) * user).sum(-1, keepdim=True).flatten(1).tanh(), T * D),
    "dot product": (lambda m, user, item: (item * user[:, 0]).sum(1, True), D),
    "by einsum": (lambda m, user, item: torch.einsum("bd,btd->bt", item, user).tanh(), T * D),
    "an axis of its own for each": (
        lambda m, user, item: (item[:, :, None, None] * user[:, None].transpose(2, 3)[:, :, :, :4]).sum(3).flatten(1),
        0,  # the contracted axis is the user's alone: no product
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_products_become_products_per_tile(name: str) -> None:
    function, expected = SUMS[name]
    model = Model(function, v=WEIGHTS["v"], t=randn(H, T, seed=6))
    parts = split_and_check(model, INPUTS)
    assert left(model, parts) == expected


TOKENS = {"user": randn(M, 3, D, seed=7), "item": randn(M, 2, D, seed=8)}
ORDERS = {
    "users first": ["user", "item"],
    "items first": ["item", "user"],
    "in turns": ["user", "item", "user", "item"],
}


@pytest.mark.parametrize("layer", [True, False])
@pytest.mark.parametrize("order", ORDERS)
def test_pairs_of_the_user_are_computed_once(order: str, layer: bool) -> None:
    def function(m: Model, user: Tensor, item: Tensor) -> Tensor:
        x = torch.cat([user if side == "user" else item for side in ORDERS[order]], 1)
        count = x.shape[1]
        rows, columns = torch.tril_indices(count, count, -1)
        pairs = torch.bmm(x, x.transpose(1, 2))[:, rows, columns]
        return F.linear(pairs, m.w[:, : pairs.shape[1]], m.b) if layer else pairs.sin()

    model = Model(function, w=randn(H, 50, seed=9), b=WEIGHTS["b"])
    parts = split_and_check(model, TOKENS)
    assert parts.unshared == ()
    count = 5 if len(ORDERS[order]) == 2 else 10
    pairs = count * (count - 1) // 2
    if layer:  # less than all pairs through the layer, and none of two of the user's
        assert report(parts, TOKENS).flops_item < 2 * (pairs * H + count * count * D)


def test_a_whole_product_that_nobody_chooses_from() -> None:
    def function(m: Model, user: Tensor, item: Tensor) -> Tensor:
        x = torch.cat([user, item], 1)
        return torch.bmm(x, x.transpose(1, 2)).flatten(1).sin()

    parts = split_and_check(Model(function), TOKENS)
    assert {copy.reason for copy in parts.unshared} == {
        "vectors of both sides meet vectors of both sides in one product"
    }


def test_indices_that_count_from_the_end() -> None:
    def function(m: Model, user: Tensor, item: Tensor) -> Tensor:
        x = torch.cat([user, item], 1)
        return torch.bmm(x, x.transpose(1, 2))[:, torch.tensor([-1, 0, 2]), torch.tensor([0, 1, -2])].sin()

    split_and_check(Model(function), TOKENS)
