"""Towers for user and ad, and target attention: the ad asks a history that a transformer has encoded.

The pattern of DSIN and of many two-stage rankers, made of PyTorch's own modules.
"""

# Legend: M rows, T events of the history, D width of a token.

import torch
from torch import Tensor, nn

USER_FIELDS, ITEM_FIELDS = 8, 6
HISTORY = 50
VOCABULARY = 1000


class TargetAttention(nn.Module):
    """user_ids [M, 8], history_ids [M, T] (0: no event), item_ids [M, 6], int64 each -> probabilities [M, 2]."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 1, embedding: int = 32) -> None:
        super().__init__()
        self.events = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.position = nn.Parameter(torch.randn(HISTORY, width) * 0.02)
        self.users = nn.Embedding(VOCABULARY, embedding)
        self.items = nn.Embedding(VOCABULARY, embedding)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.user_tower = nn.Sequential(
            nn.Linear(USER_FIELDS * embedding, 256), nn.ReLU(), nn.Linear(256, width), nn.LayerNorm(width)
        )
        self.item_tower = nn.Sequential(
            nn.Linear(ITEM_FIELDS * embedding, 256), nn.ReLU(), nn.Linear(256, width), nn.LayerNorm(width)
        )
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.head = nn.Sequential(nn.Linear(3 * width, 128), nn.GELU(), nn.Linear(128, 2))

    def forward(self, user_ids: Tensor, history_ids: Tensor, item_ids: Tensor) -> Tensor:
        user_MD = self.user_tower(self.users(user_ids).flatten(1))
        item_MD = self.item_tower(self.items(item_ids).flatten(1))

        padding_MT = history_ids == 0
        has_history_M1 = (~padding_MT).any(dim=1, keepdim=True)
        padding_MT = padding_MT & has_history_M1  # attention over nothing is undefined: attend to padding, then drop it
        encoded_MTD = self.encoder(self.events(history_ids) + self.position, src_key_padding_mask=padding_MT)
        read_M1D, _ = self.attention(item_MD.unsqueeze(1), encoded_MTD, encoded_MTD, key_padding_mask=padding_MT)
        read_MD = read_M1D.squeeze(1) * has_history_M1
        return torch.sigmoid(self.head(torch.cat([user_MD, item_MD, read_MD], dim=1)))
