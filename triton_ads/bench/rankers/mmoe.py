"""Multi-gate mixture of experts (Ma et al., KDD 2018) over embedding bags, for three labels.

A bag is a gather and a masked mean, in place of `nn.EmbeddingBag`, which engines run badly. Experts are one stack of
weights, applied by einsum.
"""

# Legend: M rows, L ids of a bag, E width of an embedding, X input width, N experts, H width of an expert, K labels.

import torch
import torch.nn.functional as F
from torch import Tensor, nn

USER_FIELDS, ITEM_FIELDS = 10, 6
USER_BAG, ITEM_BAG = 30, 8
VOCABULARY = 1000


class Bag(nn.Module):
    """ids [M, L] (0: none) -> mean of their vectors [M, E]; zero where there is none."""

    def __init__(self, embedding: int) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, embedding, padding_idx=0)

    def forward(self, ids_ML: Tensor) -> Tensor:
        mask_ML1 = (ids_ML != 0).unsqueeze(-1).float()
        return (self.table(ids_ML) * mask_ML1).sum(1) / mask_ML1.sum(1).clamp(min=1.0)


class MMoE(nn.Module):
    """user_ids [M, 10], user_bag [M, 30], item_ids [M, 6], item_bag [M, 8], int64 each -> probabilities [M, 3]."""

    def __init__(self, embedding: int = 32, experts: int = 4, expert: int = 256, labels: int = 3) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(VOCABULARY, embedding), nn.Embedding(VOCABULARY, embedding)
        self.user_bag, self.item_bag = Bag(embedding), Bag(embedding)
        width = (USER_FIELDS + ITEM_FIELDS + 2) * embedding
        self.weight = nn.Parameter(torch.randn(experts, width, expert) / width**0.5)
        self.bias = nn.Parameter(torch.zeros(experts, expert))
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(labels))
        self.towers = nn.ModuleList(
            nn.Sequential(nn.Linear(expert, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(labels)
        )

    def forward(self, user_ids: Tensor, user_bag: Tensor, item_ids: Tensor, item_bag: Tensor) -> Tensor:
        x_MX = torch.cat(
            [
                self.user(user_ids).flatten(1),
                self.user_bag(user_bag),
                self.item(item_ids).flatten(1),
                self.item_bag(item_bag),
            ],
            dim=1,
        )
        experts_MNH = F.relu(torch.einsum("mx,nxh->mnh", x_MX, self.weight) + self.bias)
        logits = []
        for gate, tower in zip(self.gates, self.towers, strict=True):
            weights_MN = torch.softmax(gate(x_MX), dim=1)
            logits.append(tower(torch.einsum("mn,mnh->mh", weights_MN, experts_MNH)))
        return torch.sigmoid(torch.cat(logits, dim=1))
