"""A transformer over one sequence of mixed tokens: user fields, history and ad attend to each other from the start.

Behaviour Sequence Transformer (Chen et al., arXiv 1905.06874) with the fields of user and ad as tokens of their own.
"""

# Legend: M rows, T events of the history, N tokens, D width of a token.

import torch
from torch import Tensor, nn

USER_FIELDS, ITEM_FIELDS = 8, 4
HISTORY = 20
VOCABULARY = 1000


class MixedTokens(nn.Module):
    """user_ids [M, 8], history_ids [M, T] (0: no event), item_ids [M, 4], int64 each -> probability [M, 1]."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 1) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.kinds = nn.Parameter(torch.randn(USER_FIELDS + HISTORY + ITEM_FIELDS, width) * 0.02)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu", batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Sequential(
            nn.Linear((USER_FIELDS + ITEM_FIELDS + 1) * width, 256), nn.LeakyReLU(), nn.Linear(256, 1)
        )

    def forward(self, user_ids: Tensor, history_ids: Tensor, item_ids: Tensor) -> Tensor:
        ids_MN = torch.cat([user_ids, history_ids, item_ids], dim=1)
        x_MND = self.tokens(ids_MN) + self.kinds
        padding_MN = torch.cat([torch.zeros_like(user_ids), (history_ids == 0).long(), torch.zeros_like(item_ids)], 1)
        for block in self.blocks:
            x_MND = block(x_MND, src_key_padding_mask=padding_MN.bool())
        user_MUD, history_MTD, item_MID = x_MND.split([USER_FIELDS, HISTORY, ITEM_FIELDS], dim=1)
        known_MT1 = (history_ids != 0).unsqueeze(2)
        pooled_MD = (history_MTD * known_MT1).sum(1) / known_MT1.sum(1).clamp(min=1)
        return torch.sigmoid(self.head(torch.cat([user_MUD.flatten(1), pooled_MD, item_MID.flatten(1)], dim=1)))
