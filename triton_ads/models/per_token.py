"""Layers with weights of their own for every token.

They work *token-major*, on [H, M, d]: a layer is then one batched matrix product without a copy, and the batch axis
of a request or a training step lies inside each product, where it is long.
"""

# Legend: H tokens, M rows, d width in, e width out, D token width, R hidden width.

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PerTokenLinear(nn.Module):
    """`y_h = x_h W_h (+ b_h)`, float32 [H, M, d] -> [H, M, e]; weight [H, d, e]."""

    def __init__(self, tokens: int, width_in: int, width_out: int, *, bias: bool = False) -> None:
        super().__init__()
        limit = (6 / (width_in + width_out)) ** 0.5  # Glorot-uniform of each token's own matrix
        self.weight = nn.Parameter(torch.empty(tokens, width_in, width_out).uniform_(-limit, limit))
        self.bias = nn.Parameter(torch.zeros(tokens, 1, width_out)) if bias else None

    def forward(self, x_HMd: Tensor) -> Tensor:
        y_HMe = torch.bmm(x_HMd, self.weight)
        return y_HMe if self.bias is None else y_HMe + self.bias


class PerTokenSwiGLU(nn.Module):
    """`y_h = (silu(x_h G_h) * (x_h U_h)) D_h`, float32 [H, M, D] -> [H, M, D]."""

    def __init__(self, tokens: int, width: int, hidden: int) -> None:
        super().__init__()
        self.gate = PerTokenLinear(tokens, width, hidden)
        self.up = PerTokenLinear(tokens, width, hidden)
        self.down = PerTokenLinear(tokens, hidden, width)

    def forward(self, x_HMD: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x_HMD)) * self.up(x_HMD))
