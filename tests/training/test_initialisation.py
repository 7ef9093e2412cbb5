"""Where parameters start."""

import torch
from torch import nn

from triton_ads.models.per_token import PerTokenLinear
from triton_ads.training.initialisation import initialise


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1200, 16)
        self.linear = nn.Linear(200, 100)
        self.stack = PerTokenLinear(3, 50, 100, bias=True)
        self.norm = nn.LayerNorm(8)
        self.scale = nn.RMSNorm(8)


def started(seed: int) -> Small:
    torch.manual_seed(seed + 100)  # the constructors' own draws must not matter
    model = Small()
    initialise(model, seed)
    return model


def uniform_limit(x: torch.Tensor) -> float:
    """The limit of the uniform distribution that has the standard deviation of x."""
    return float(x.detach().std() * 3**0.5)


def test_limits() -> None:
    model = started(0)
    # Tolerance: the standard deviation of n uniform values is known to about 1 / sqrt(n), here n >= 15,000.
    for weight, limit in ((model.table.weight, 0.05), (model.linear.weight, 0.02**0.5), (model.stack.weight, 0.2)):
        assert abs(uniform_limit(weight) / limit - 1) < 0.03
        assert 0.99 * limit < float(weight.detach().abs().max()) <= limit
        assert abs(float(weight.detach().mean())) < 0.03 * limit


def test_biases_are_zero_and_scales_one() -> None:
    model = started(0)
    assert model.stack.bias is not None
    for bias in (model.linear.bias, model.stack.bias, model.norm.bias):
        assert not bias.any()
    assert bool((model.norm.weight == 1).all()) and bool((model.scale.weight == 1).all())


def test_the_seed_decides() -> None:
    first, again, other = started(3).state_dict(), started(3).state_dict(), started(4).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["linear.weight"], other["linear.weight"])
