"""Recurrent layers: the user's stays the user's, and what they cost is counted."""

import pytest
import torch
from torch import Tensor, nn

from tests.split.harness import randn, split_and_check
from triton_ads.split.report import report

T, D, H = 5, 3, 4
INPUTS = {"user": randn(4, T, D, seed=1), "item": randn(4, H, seed=2)}


class Recurrent(nn.Module):
    def __init__(self, layer: type[nn.RNNBase], from_the_item: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.from_the_item = layer(D, H, batch_first=True), from_the_item

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        steps, _ = self.layer(user, item.unsqueeze(0)) if self.from_the_item else self.layer(user)
        return torch.sigmoid((steps[:, -1] * item).sum(1, keepdim=True))


@pytest.mark.parametrize(("layer", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
def test_a_history_is_read_once_per_user(layer: type[nn.RNNBase], gates: int) -> None:
    """For each of 5 steps, gates x 4 rows of weights times 3 inputs and 4 of the state; per item a product of 4."""
    counted = report(split_and_check(Recurrent(layer), INPUTS), INPUTS)
    assert counted.flops_user == 2 * T * gates * H * (D + H)
    assert (counted.flops_item, counted.flops_row) == (2 * H, counted.flops_user + 2 * H)
    assert counted.unshared == []
    first, last = counted.operators
    assert (first["shape"], first["side"]) == ((T, H), "user")
    assert (last["operator"], last["flops_row"], last["flops_item"]) == ("aten.sum.dim_IntList", 2 * H, 2 * H)


def test_a_state_that_begins_with_the_item_is_the_items() -> None:
    counted = report(split_and_check(Recurrent(nn.GRU, from_the_item=True), INPUTS), INPUTS)
    assert counted.flops_item == counted.flops_row > 0
    assert [copy["operator"] for copy in counted.unshared] == ["aten.gru.input"]
