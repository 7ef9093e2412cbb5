"""Tokenization: the non-sequence embedding is cut into heads, each with a projection of its own.

"Heads", not feature groups as in RankMixer: token n sees floats [n w, (n + 1) w) of the concatenated embedding,
whatever features they belong to (iQIYI, 3.2.2). Where the width is no multiple of the heads, zeros fill the last.
"""

# Legend: M rows, E width of the embedding, N tokens, w width of a head, D token width.

import torch.nn.functional as F
from torch import Tensor, nn

from triton_ads.models.per_token import PerTokenLinear


class Tokenizer(nn.Module):
    def __init__(self, width: int, tokens: int, token_dim: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.head_width = -(-width // tokens)
        self.padding = self.head_width * tokens - width
        self.project = PerTokenLinear(tokens, self.head_width, token_dim, bias=True)

    def forward(self, x_ME: Tensor) -> Tensor:
        """float32 [M, E] -> tokens [N, M, D], token-major."""
        if self.padding:
            x_ME = F.pad(x_ME, (0, self.padding))
        heads_MNw = x_ME.unflatten(1, (self.tokens, self.head_width))
        return self.project(heads_MNw.transpose(0, 1))
