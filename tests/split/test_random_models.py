"""Random models built of supported layers: whatever the structure, the parts give the model's scores."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.split.harness import randn, split_and_check

WIDTH = 4


class RandomRanker(nn.Module):
    """Blocks of both sides in a random order, then random layers that keep [M, tokens, WIDTH]."""

    def __init__(self, order: list[str], layers: list[str], seed: int) -> None:
        super().__init__()
        self.order, self.layers = order, layers
        tokens = len(order)
        self.across = nn.Parameter(randn(tokens, tokens, seed=seed) / tokens)
        self.per_token = nn.Parameter(randn(tokens, WIDTH, WIDTH, seed=seed + 1) / 2)
        self.shared = nn.Linear(WIDTH, WIDTH)
        self.gate = nn.Linear(tokens * WIDTH, tokens * WIDTH)
        self.head = nn.Linear(tokens * WIDTH, 2)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        taken = {"user": 0, "item": 0}
        tokens = []
        for side in self.order:
            source = user if side == "user" else item
            tokens.append(source[:, taken[side] % source.shape[1]].unsqueeze(1))
            taken[side] += 1
        x = torch.cat(tokens, 1)
        for layer in self.layers:
            x = getattr(self, f"_{layer}")(x, user, item)
        return torch.sigmoid(self.head(x.flatten(1)))

    def _shared(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return F.silu(self.shared(x))

    def _per_token(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return x + torch.bmm(x.transpose(0, 1), self.per_token).transpose(0, 1).tanh()

    def _across(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return torch.matmul(self.across, x)

    def _mix(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return x.flatten(1).unflatten(1, (WIDTH, x.shape[1])).transpose(1, 2)

    def _gate(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return x * 2 * torch.sigmoid(self.gate(x.flatten(1).detach())).unflatten(1, x.shape[1:])

    def _norm(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,))

    def _attend(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return x + torch.matmul(torch.softmax(torch.matmul(x, user.transpose(1, 2)), -1), user)

    def _interact(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return (
            torch.matmul(x, torch.matmul(x.transpose(1, 2), self.across)).matmul(torch.ones(x.shape[1], WIDTH))
            / x.shape[1]
        )

    def _roll(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return torch.cat([x[:, 1:], x[:, :1]], 1)

    def _centre(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)

    def _meet(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return x + user[:, :1] * item[:, :1]


LAYERS = ["shared", "per_token", "across", "mix", "gate", "norm", "attend", "interact", "roll", "centre", "meet"]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    order=st.lists(st.sampled_from(["user", "item"]), min_size=2, max_size=6),
    layers=st.lists(st.sampled_from(LAYERS), max_size=5),
    seed=st.integers(0, 1000),
)
def test_parts_give_the_models_scores(order: list[str], layers: list[str], seed: int) -> None:
    torch.manual_seed(seed)
    model = RandomRanker(order, layers, seed)
    split_and_check(model, {"user": randn(4, 3, WIDTH, seed=seed), "item": randn(4, 2, WIDTH, seed=seed + 9)})
