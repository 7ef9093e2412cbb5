"""Random models built of supported layers: whatever the structure, the parts give the model's scores."""

import pytest
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
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, batch_first=True)
        self.unit = nn.Sequential(nn.Linear(4 * WIDTH, WIDTH), nn.PReLU(), nn.Linear(WIDTH, 1))
        self.channels = nn.BatchNorm1d(tokens)
        self.features = nn.BatchNorm1d(tokens * WIDTH)
        self.slopes = nn.PReLU(tokens)
        self.experts = nn.Parameter(randn(2, tokens * WIDTH, WIDTH, seed=seed + 2) / 3)
        for norm in (self.channels, self.features):
            nn.init.normal_(norm.running_mean, std=0.3)  # type: ignore[arg-type]
            nn.init.uniform_(norm.running_var, 0.5, 1.5)  # type: ignore[arg-type]

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

    def _multi_head(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        padding = user[:, :, 0] > 1.0
        padding = padding & ~padding.all(1, keepdim=True)
        return x + self.attention(x, user, user, key_padding_mask=padding, need_weights=False)[0]

    def _self_attend(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return self.encoder(x)

    def _masked(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        """Where the mask hides every key, attention reads zeros."""
        return x + F.scaled_dot_product_attention(x, user, user, attn_mask=(user[:, :, 0] > 0.5).unsqueeze(1))

    def _din(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        """A history weighed for one token, with padding that weighs nothing."""
        query = x[:, :1].expand(-1, user.shape[1], -1)
        weights = self.unit(torch.cat([query, user, query - user, query * user], -1))
        weights = weights.masked_fill(user[:, :, :1] > 1.0, 0.0)
        return x + (weights * user).sum(1, keepdim=True)

    def _difference(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return self.shared(x - user[:, :1]) + self.shared(item[:, :1] - user[:, 1:2])

    def _channel_norm(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return self.slopes(self.channels(x))

    def _feature_norm(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return self.features(x.flatten(1)).unflatten(1, x.shape[1:])

    def _norm_of_all(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[1:])

    def _softmax_over_tokens(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return x * x.softmax(1)

    def _mixture(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        experts = torch.einsum("mx,nxh->mnh", x.flatten(1), self.experts)
        gates = experts[:, :, 0].softmax(1)
        return x + torch.einsum("mn,mnh->mh", gates, experts).unsqueeze(1)

    def _merged(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        return F.silu(self.shared(x.reshape(-1, WIDTH))).reshape(-1, x.shape[1], WIDTH)

    def _pairs(self, x: Tensor, user: Tensor, item: Tensor) -> Tensor:
        rows, columns = torch.tril_indices(x.shape[1], x.shape[1], -1)
        return x + torch.bmm(x, x.transpose(1, 2))[:, rows, columns].sum(1).tanh()[:, None, None]


LAYERS = [
    name[1:] for name, value in vars(RandomRanker).items() if name[0] == "_" and name[1] != "_" and callable(value)
]


def test_every_layer_is_drawn() -> None:
    assert len(LAYERS) == 23


@settings(max_examples=12, derandomize=True)
@given(
    order=st.lists(st.sampled_from(["user", "item"]), min_size=2, max_size=6),
    layers=st.lists(st.sampled_from(LAYERS), max_size=5),
    seed=st.integers(0, 1000),
)
def test_parts_give_the_models_scores(order: list[str], layers: list[str], seed: int) -> None:
    """For one user and for several, tiles of one candidate and of many, users in any order (`check_parity`)."""
    torch.manual_seed(seed)
    model = RandomRanker(order, layers, seed)
    split_and_check(model, {"user": randn(4, 3, WIDTH, seed=seed), "item": randn(4, 2, WIDTH, seed=seed + 9)})


@pytest.mark.parametrize("layer", LAYERS)
def test_each_layer_on_blocks_and_on_what_it_left(layer: str) -> None:
    torch.manual_seed(1)
    model = RandomRanker(["user", "item", "user", "user", "item"], [layer, layer], 1)
    split_and_check(model, {"user": randn(4, 3, WIDTH, seed=1), "item": randn(4, 2, WIDTH, seed=2)})
