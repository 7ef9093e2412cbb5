"""Small row-wise models, split and compared with themselves."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from triton_ads.split import Split, check_parity, split

SIDES = {"user": "user", "user_ids": "user", "item": "item", "item_ids": "item"}


class Model(nn.Module):
    """A module made of a function of its inputs; `weights` are its parameters by name."""

    def __init__(self, function: Callable[..., Tensor], **weights: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in weights.items():
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, **inputs: Tensor) -> Tensor:
        return self.function(self, **inputs)


def split_and_check(model: nn.Module, inputs: dict[str, Tensor]) -> Split:
    """Split `model`; the parts must give its scores for users and tiles of every arrangement."""
    parts = split(model.eval(), inputs, SIDES)
    assert check_parity(model, parts, inputs, 1e-5) <= 1e-5
    return parts


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
