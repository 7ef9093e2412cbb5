"""Dense features: standardised, then projected."""

# Legend: M rows, D dense columns, W width.

import torch
from torch import Tensor, nn


class Standardisation(nn.Module):
    """`(x - mean) / std`, float32 [M, D].

    Mean and standard deviation are buffers, 0 and 1 until training sets them from its examples (`standardise`).
    """

    mean_D: Tensor
    std_D: Tensor

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.register_buffer("mean_D", torch.zeros(columns))
        self.register_buffer("std_D", torch.ones(columns))

    def standardise(self, mean_D: Tensor, std_D: Tensor) -> None:
        """Set the constants; a column that never varies (std 0) is only centred."""
        self.mean_D.copy_(mean_D)
        self.std_D.copy_(torch.where(std_D > 0, std_D, 1.0))

    def forward(self, x_MD: Tensor) -> Tensor:
        return (x_MD - self.mean_D) / self.std_D


class DenseProjection(Standardisation):
    """`W (x - mean) / std + b`, float32 [M, D] -> [M, W]."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__(columns)
        self.linear = nn.Linear(columns, width)

    def forward(self, x_MD: Tensor) -> Tensor:
        return self.linear(super().forward(x_MD))
