"""What a user's value of another type than float32 is when the item part reads it, and constants made one per row."""

import pytest
import torch
from torch import Tensor

from tests.split.harness import Model, randn, split_and_check

INPUTS = {"user": randn(4, 3, seed=1), "item": randn(4, 3, seed=2)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_floats_of_another_width(dtype: torch.dtype) -> None:
    """float32 holds every float16 and bfloat16; the product is taken in the model's own type."""

    def model(m: Model, user: Tensor, item: Tensor) -> Tensor:
        return (user.to(dtype) * item.to(dtype)).float()

    parts = split_and_check(Model(model), INPUTS)
    assert [entry.dtype for entry in parts.state] == ["float32"]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_of_another_width(dtype: torch.dtype) -> None:
    """Exact up to the last value of the type, and what the type makes of a sum: uint8 255 + 1 is 0."""
    last = torch.iinfo(dtype).max

    def model(m: Model, user: Tensor, item: Tensor) -> Tensor:
        high = torch.where(user > 0, last, last - 1).to(dtype)
        return (high + (item > 0).to(dtype) == last).float()

    parts = split_and_check(Model(model), INPUTS)
    assert [entry.dtype for entry in parts.state] == ["int64"]


def test_a_token_of_its_own_before_the_items() -> None:
    """`cls.expand(rows, ...)` is no user's value, and is made once per user all the same."""

    def model(m: Model, user: Tensor, item: Tensor) -> Tensor:
        tokens = torch.cat([m.cls.expand(item.shape[0], -1, -1), item.unsqueeze(1)], 1)
        return (tokens * user.unsqueeze(1)).sum(2)

    split_and_check(Model(model, cls=randn(1, 2, 3, seed=3)), INPUTS)


def test_constant_places_that_items_are_added_at() -> None:
    """Buckets [M, 5] of sums over items, with the same constant places for every row."""

    def model(m: Model, user: Tensor, item: Tensor) -> Tensor:
        places = torch.tensor([[0, 4, 0]]).expand(user.shape[0], -1)
        return torch.zeros(user.shape[0], 5).scatter_add(1, places, user * item)

    split_and_check(Model(model), INPUTS)
