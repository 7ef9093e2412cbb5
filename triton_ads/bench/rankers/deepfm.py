"""DeepFM (Guo et al., IJCAI 2017, arXiv 1703.04247): a factorisation machine and an MLP on the same embeddings."""

# Legend: M rows, F fields, E width of an embedding.

import torch
from torch import Tensor, nn

USER_FIELDS, ITEM_FIELDS = 16, 10
VOCABULARY = 1000


class DeepFM(nn.Module):
    """user_ids [M, 16], item_ids [M, 10], int64 each -> probability [M, 1]."""

    offsets: Tensor

    def __init__(self, embedding: int = 16, hidden: int = 400) -> None:
        super().__init__()
        fields = USER_FIELDS + ITEM_FIELDS
        self.register_buffer("offsets", torch.arange(fields) * VOCABULARY)
        self.first = nn.Embedding(fields * VOCABULARY, 1)
        self.second = nn.Embedding(fields * VOCABULARY, embedding)
        nn.init.normal_(self.second.weight, std=0.1)
        self.bias = nn.Parameter(torch.zeros(1))
        layers: list[nn.Module] = []
        width = fields * embedding
        for _ in range(3):
            layers += [nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.2)]
            width = hidden
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, user_ids: Tensor, item_ids: Tensor) -> Tensor:
        ids_MF = torch.cat([user_ids, item_ids], dim=1) + self.offsets
        v_MFE = self.second(ids_MF)
        square_of_sum_ME = v_MFE.sum(dim=1).pow(2)
        sum_of_squares_ME = v_MFE.pow(2).sum(dim=1)
        pairs_M1 = 0.5 * (square_of_sum_ME - sum_of_squares_ME).sum(dim=1, keepdim=True)
        linear_M1 = self.first(ids_MF).sum(dim=1) + self.bias
        return torch.sigmoid(linear_M1 + pairs_M1 + self.deep(v_MFE.flatten(1)))
