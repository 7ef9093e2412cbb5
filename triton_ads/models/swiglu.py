"""SwiGLU: the position-wise network that encodes a sequence."""

import torch.nn.functional as F
from torch import Tensor, nn


class SwiGLU(nn.Module):
    """`y = (silu(x G) * (x U)) D` on the last axis (arXiv 2002.05202); no biases, so that zero gives zero."""

    def __init__(self, width_in: int, hidden: int, width_out: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width_in, hidden, bias=False)
        self.up = nn.Linear(width_in, hidden, bias=False)
        self.down = nn.Linear(hidden, width_out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))
