"""The batch kept apart: the rewritten graph computes what the model does, and no value merges rows with other axes."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from tests.split.harness import Model, randn
from triton_ads.split.capture import Captured, capture
from triton_ads.split.values import shape_of

M, T, D = 5, 4, 6
INPUTS = {"user": randn(M, T, D, seed=1), "item": randn(M, 2, D, seed=2)}


def merged(captured: Captured) -> list[str]:
    """Values of a graph that have the batch in one axis with something else."""
    return [
        node.name
        for node in captured.graph.nodes
        if isinstance(node.meta.get("val"), Tensor)
        and any(not isinstance(size, int) and size != captured.batch for size in shape_of(node.meta["val"]))
    ]


def run(captured: Captured, inputs: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        (scores,) = fx.GraphModule(nn.Module(), captured.graph)(*captured.arguments(inputs))
    return scores


def check(model: nn.Module) -> Captured:
    """The captured graph equals the model on other numbers of rows than it was captured with."""
    captured = capture(model.eval(), INPUTS)
    for rows in (1, 2, M):
        some = {name: tensor[:rows] for name, tensor in INPUTS.items()}
        with torch.no_grad():
            torch.testing.assert_close(run(captured, some), model(**some), rtol=1e-5, atol=1e-6)
    return captured


def over(x: Tensor) -> Tensor:
    return x.flatten(1).sum(1, keepdim=True)


CASES: dict[str, Callable[..., Tensor]] = {
    "linear over rows and time": lambda m, user, item: over(
        F.linear(user.reshape(-1, D), m.w).relu().reshape(user.shape[0], T, 3)
    ),
    "time before rows": lambda m, user, item: over(
        F.linear(user.transpose(0, 1).reshape(-1, D), m.w).reshape(T, user.shape[0], 3).transpose(0, 1).tanh()
    ),
    "heads in the batch": lambda m, user, item: over(
        torch.bmm(
            user.reshape(-1, T, 2, 3).transpose(1, 2).reshape(-1, T, 3),
            user.reshape(-1, T, 2, 3).transpose(1, 2).reshape(-1, T, 3).transpose(1, 2),
        )
        .softmax(-1)
        .reshape(-1, 2, T, T)
    ),
    "pointwise with a value of fewer axes": lambda m, user, item: over(
        (user.reshape(-1, D) * m.w[0] + user.reshape(-1, D)[:, :1]).exp().reshape(-1, T, D)
    ),
    "layer norm, slice, select, sum": lambda m, user, item: (
        lambda x: (x[:, 1:4].sum(1, keepdim=True) + x.select(1, 0).unsqueeze(1)).reshape(-1, T)
    )(F.layer_norm(user.reshape(-1, D), (D,))),
    "lookup of merged ids": lambda m, user, item: over(
        F.embedding((user[:, :, 0] > 0).long().reshape(-1), m.w).reshape(-1, T, D)
    ),
    "any and all": lambda m, user, item: over(
        ((user.reshape(-1, D) > 0).any(1) & (user.reshape(-1, D) > -1).all(1)).reshape(-1, T).float()
    ),
    "merged thrice": lambda m, user, item: over(
        user.reshape(-1, D, 1).reshape(-1, 2, 3).transpose(1, 2).reshape(-1, D).cos().reshape(-1, T, D)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_same_numbers_and_no_merged_value(name: str) -> None:
    assert merged(check(Model(CASES[name], w=randn(3, D, seed=3)))) == []


class Attention(nn.Module):
    def __init__(self, batch_first: bool, weights: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(D, 2, batch_first=batch_first)
        self.weights = weights

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        query, keys = (item, user) if self.attention.batch_first else (item.transpose(0, 1), user.transpose(0, 1))
        padding = user[:, :, 0] > 1.0
        read, _ = self.attention(query, keys, keys, key_padding_mask=padding, need_weights=self.weights)
        return over(read if self.attention.batch_first else read.transpose(0, 1))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_multi_head_attention(batch_first: bool, weights: bool) -> None:
    assert merged(check(Attention(batch_first, weights))) == []


def test_a_transformer_layer() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.TransformerEncoderLayer(D, 2, 12, norm_first=True, batch_first=True)

        def forward(self, user: Tensor, item: Tensor) -> Tensor:
            return over(self.layer(torch.cat([user, item], 1)))

    assert merged(check(Encoder())) == []


OTHERS: dict[str, Callable[..., Tensor]] = {
    "an operator that is not known": lambda m, user, item: over(user.reshape(-1, D).cumsum(1).reshape(-1, T, D)),
    "a product with rows merged in two ways": lambda m, user, item: over(
        (user.reshape(-1, 1) * user.transpose(0, 1).transpose(0, 1).reshape(-1, 1)).reshape(-1, T, D)
    ),
    "cut within a row": lambda m, user, item: over(user.reshape(-1, 4).exp().reshape(-1, T, D)),
    "joined": lambda m, user, item: over(torch.cat([user.reshape(-1, D), user.reshape(-1, D)], 1).reshape(-1, T, D)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_cannot_be_kept_apart_is_right_all_the_same(name: str) -> None:
    check(Model(OTHERS[name]))


def test_a_graph_that_merges_nothing_stays_as_it_is() -> None:
    captured = check(Model(lambda m, user, item: over(user) + over(item)))
    assert not any(node.target is torch.ops.aten.reshape.default for node in captured.graph.nodes)
