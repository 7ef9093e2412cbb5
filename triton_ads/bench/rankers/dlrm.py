"""DLRM (Naumov et al., arXiv 1906.00091) with the cross layers of DCNv2 (Wang et al., WWW 2021, arXiv 2008.13535).

Dense features go through a bottom MLP to one more vector; the dot products of all pairs of vectors and the output of
the cross layers, which start from all vectors side by side, meet in the top MLP.
"""

# Legend: M rows, N vectors (fields and the dense one), E width of an embedding, X = N E, L cross layers.

import torch
from torch import Tensor, nn

USER_FIELDS, USER_DENSE = 16, 13
ITEM_FIELDS = 8
VOCABULARY = 1000


class CrossNetwork(nn.Module):
    """`x_(l+1) = x_0 * (W_l x_l + b_l) + x_l` (equation 1 of DCNv2, full matrices)."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x0_MX: Tensor) -> Tensor:
        x_MX = x0_MX
        for layer in self.layers:
            x_MX = x0_MX * layer(x_MX) + x_MX
        return x_MX


class DLRM(nn.Module):
    """user_ids [M, 16], user_dense [M, 13], item_ids [M, 8] -> probability [M, 1]."""

    rows: Tensor
    columns: Tensor

    def __init__(self, embedding: int = 32, layers: int = 2) -> None:
        super().__init__()
        vectors = 1 + USER_FIELDS + ITEM_FIELDS
        self.user = nn.Embedding(VOCABULARY, embedding)
        self.item = nn.Embedding(VOCABULARY, embedding)
        self.bottom = nn.Sequential(
            nn.Linear(USER_DENSE, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, embedding), nn.ReLU()
        )
        self.cross = CrossNetwork(vectors * embedding, layers)
        self.top = nn.Sequential(
            nn.Linear(vectors * embedding + vectors * (vectors - 1) // 2, 512),
            nn.ReLU(),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Linear(256, 1),
        )
        rows, columns = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, user_ids: Tensor, user_dense: Tensor, item_ids: Tensor) -> Tensor:
        dense_ME = self.bottom(user_dense)
        x_MNE = torch.cat([dense_ME.unsqueeze(1), self.user(user_ids), self.item(item_ids)], dim=1)
        dots_MNN = torch.bmm(x_MNE, x_MNE.transpose(1, 2))
        pairs = dots_MNN[:, self.rows, self.columns]
        crossed = self.cross(x_MNE.flatten(1))
        return torch.sigmoid(self.top(torch.cat([crossed, pairs], dim=1)))
