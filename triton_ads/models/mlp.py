"""Two fully connected layers: heads, and Wukong's networks."""

from torch import nn


class MLP(nn.Sequential):
    """`W2 relu(W1 x + b1) + b2` on the last axis."""

    def __init__(self, width_in: int, hidden: int, width_out: int) -> None:
        super().__init__(nn.Linear(width_in, hidden), nn.ReLU(), nn.Linear(hidden, width_out))
