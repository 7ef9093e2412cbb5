"""A module with keyword inputs, called by position: the form in which the exporters keep the order of the inputs."""

from collections.abc import Sequence

from torch import Tensor, nn


class Positional(nn.Module):
    """`forward(*inputs)` calls `module` with `names` as keywords."""

    def __init__(self, module: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self.names = tuple(names)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.module(**dict(zip(self.names, inputs, strict=True)))
