"""Wukong's sequence processing: histories encoded once, asked by the tokens of every layer."""

# Legend: M rows, n tokens, S sequences, Q queries a sequence, T events, E width of an event, D token width.

import torch
from torch import Tensor, nn

from triton_ads.models.attention import attend_all
from triton_ads.models.embedding import History
from triton_ads.models.swiglu import SwiGLU


class HistoryEncoder(nn.Module):
    """One sequence, event by event: `H_t = SwiGLU(e_t) + P_t`, events float32 [M, T, E] -> [M, T, D].

    P is learned, one vector a place in the history (the most recent event stands first): attention itself reads no
    order. What stands at padding must not be read.
    """

    def __init__(self, event_width: int, length: int, hidden: int, token_dim: int) -> None:
        super().__init__()
        self.swiglu = SwiGLU(event_width, hidden, token_dim)
        self.place_TD = nn.Parameter(torch.empty(length, token_dim))
        nn.init.xavier_uniform_(self.place_TD)

    def forward(self, history: History) -> History:
        return History(self.swiglu(history.events_MTE) + self.place_TD, history.valid_MT)


class HistoryReader(nn.Module):
    """What the tokens of one layer read in the encoded histories, float32 [M, n, D] -> [M, S Q, D].

    Q queries a sequence are linear maps of the n tokens, like the tokens of the linear compression, then turned by one
    matrix; keys and values are the encoded histories, the same in every layer:

        q_s = (W_s X) U          d_s = softmax(q_s H_s^T / (sqrt(D / heads) temperature)) H_s

    A sequence without an event gives exactly zero.
    """

    def __init__(self, tokens: int, sequences: int, queries: int, token_dim: int, heads: int, temperature: float):
        super().__init__()
        self.queries, self.heads, self.temperature = queries, heads, temperature
        self.ask = nn.Linear(tokens, sequences * queries, bias=False)
        self.turn = nn.Linear(token_dim, token_dim, bias=False)

    def forward(self, x_MnD: Tensor, histories: list[History]) -> Tensor:
        queries = self.turn(self.ask(x_MnD.transpose(1, 2)).transpose(1, 2)).split(self.queries, dim=1)
        read = [
            attend_all(queries_MQD, history.events_MTE, history.valid_MT, self.temperature, self.heads)
            for queries_MQD, history in zip(queries, histories, strict=True)
        ]
        return torch.cat(read, dim=1)
