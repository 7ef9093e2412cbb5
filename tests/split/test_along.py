"""Operators along one axis of blocks: per block where it holds one side, whole and reported where it holds two."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.split.harness import Model, randn, split_and_check

INPUTS = {"user": randn(4, 3, 6, seed=1), "item": randn(4, 2, 6, seed=2)}  # 3 and 2 tokens of 6
ALONG: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda x: x.max(2).values,
    "min, axis kept": lambda x: x.min(-1, keepdim=True)[0],
    "argmax": lambda x: x.argmax(2).float(),
    "logsumexp": lambda x: x.logsumexp(2),
    "std": lambda x: x.std(-1),
    "var, biased": lambda x: torch.var(x, (2,), correction=0),
    "prod": lambda x: x.prod(2),
    "cumsum": lambda x: x.cumsum(2),
    "sort": lambda x: x.sort(-1, descending=True)[0],
    "topk": lambda x: x.topk(2)[0],
    "glu": lambda x: F.glu(x),
    "flip": lambda x: x.flip(2),
    "roll": lambda x: x.roll(1, 2),
    "aminmax": lambda x: torch.aminmax(x, dim=2).max,
}


@pytest.mark.parametrize("name", ALONG)
def test_of_the_features_of_each_token(name: str) -> None:
    def model(m: Model, user: Tensor, item: Tensor) -> Tensor:
        return ALONG[name](torch.cat([user, item], 1)).flatten(1)[:, ::2]

    parts = split_and_check(Model(model), INPUTS)
    assert not [copy for copy in parts.unshared if copy.reason.startswith(("no rule", "computed along"))]


@pytest.mark.parametrize("name", ["cumsum", "sort", "max"])
def test_of_the_tokens_of_both_sides(name: str) -> None:
    def model(m: Model, user: Tensor, item: Tensor) -> Tensor:
        return ALONG[name](torch.cat([user, item], 1).transpose(1, 2)).flatten(1)

    parts = split_and_check(Model(model), INPUTS)
    assert [copy.reason for copy in parts.unshared] == ["computed along an axis that holds values of both sides"]
