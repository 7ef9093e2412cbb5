"""EPNet: gates every embedding by the scenario (PEPNet, arXiv 2302.01115, "Embedding Personalized Network").

    gate = 2 sigmoid(W2 relu(W1 [E_domain, stopgrad(E)] + b1) + b2)        E' = gate * E

The factor 2 centres the gate at 1: an untrained gate leaves the embeddings as they are. E enters the gate without
gradient, so that the gate does not disturb what the embeddings learn; the domain's vector learns through it.

Chosen here, where the sources are silent: the width of the hidden layer, and that E holds all non-sequence
features, the domain's own vector included.
"""

# Legend: M rows, G width of the domain's vector, E width of all non-sequence embeddings.

import torch
from torch import Tensor, nn


class EPNet(nn.Module):
    def __init__(self, domain_width: int, width: int, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(domain_width + width, hidden)
        self.gate = nn.Linear(hidden, width)

    def forward(self, x_ME: Tensor, domain_MG: Tensor) -> Tensor:
        """float32 [M, E] -> [M, E]."""
        seen = torch.cat([domain_MG, x_ME.detach()], dim=1)
        gate_ME = 2 * torch.sigmoid(self.gate(torch.relu(self.hidden(seen))))
        return gate_ME * x_ME
