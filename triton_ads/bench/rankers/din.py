"""Deep Interest Network (Zhou et al., KDD 2018, arXiv 1706.06978): the history is weighed anew for every candidate.

The activation unit is the published one, an MLP over [q, k, q - k, q * k] without softmax; sizes are those of the
authors' code (80-40 in the unit, 200-80 above). Padding weighs nothing, so an empty history is a zero vector.
"""

# Legend: M rows, T events of the history, F fields of an ad, E width of an embedding, D = F E, H hidden width.

import torch
from torch import Tensor, nn

FIELDS = 2  # of an ad and of an event: the ad and its category
USER_FIELDS = 8
HISTORY = 50
VOCABULARY = 1000


class Dice(nn.Module):
    """`p x + (1 - p) alpha x` with `p = sigmoid(norm(x))` (equation 4 of the paper), over features [M, H]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, eps=1e-9, affine=False)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, x_MH: Tensor) -> Tensor:
        p_MH = torch.sigmoid(self.norm(x_MH))
        return p_MH * x_MH + (1 - p_MH) * self.alpha * x_MH


class ActivationUnit(nn.Module):
    """How much each event matters for the candidate."""

    def __init__(self, width: int, hidden: tuple[int, int] = (80, 40)) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4 * width, hidden[0]),
            nn.PReLU(),
            nn.Linear(hidden[0], hidden[1]),
            nn.PReLU(),
            nn.Linear(hidden[1], 1),
        )

    def forward(self, query_MD: Tensor, keys_MTD: Tensor) -> Tensor:
        query_MTD = query_MD.unsqueeze(1).expand(-1, keys_MTD.shape[1], -1)
        met_MTX = torch.cat([query_MTD, keys_MTD, query_MTD - keys_MTD, query_MTD * keys_MTD], dim=-1)
        return self.layers(met_MTX).squeeze(-1)


class DIN(nn.Module):
    """user_ids [M, 8], history_ids [M, T, 2] (0: no event), item_ids [M, 2], int64 each -> probability [M, 1]."""

    def __init__(self, embedding: int = 32, hidden: tuple[int, int] = (200, 80)) -> None:
        super().__init__()
        width = FIELDS * embedding
        self.item = nn.Embedding(VOCABULARY, embedding, padding_idx=0)
        self.user = nn.Embedding(VOCABULARY, embedding, padding_idx=0)
        self.attention = ActivationUnit(width)
        self.mlp = nn.Sequential(
            nn.Linear(USER_FIELDS * embedding + 3 * width, hidden[0]),
            Dice(hidden[0]),
            nn.Linear(hidden[0], hidden[1]),
            Dice(hidden[1]),
            nn.Linear(hidden[1], 1),
        )

    def forward(self, user_ids: Tensor, history_ids: Tensor, item_ids: Tensor) -> Tensor:
        query_MD = self.item(item_ids).flatten(1)
        keys_MTD = self.item(history_ids).flatten(2)
        weights_MT = self.attention(query_MD, keys_MTD)
        weights_MT = weights_MT.masked_fill(history_ids[:, :, 0] == 0, 0.0)
        interest_MD = (weights_MT.unsqueeze(-1) * keys_MTD).sum(dim=1)
        profile_MU = self.user(user_ids).flatten(1)
        x_MX = torch.cat([profile_MU, interest_MD, query_MD, interest_MD * query_MD], dim=1)
        return torch.sigmoid(self.mlp(x_MX))
