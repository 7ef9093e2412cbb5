"""Cross-attention of one query a row over a history."""

# Legend: M rows, T events, D token width.

import math

import torch
from torch import Tensor

#: The score of padding. exp(-1e4 - score) is 0 in every precision, and -1e4 itself fits FP16 (-3.4e38 does not).
MASKED = -1e4


def attend(query_MD: Tensor, history_MTD: Tensor, valid_MT: Tensor, temperature: float) -> Tensor:
    """`softmax(q K^T / (sqrt(D) temperature)) V` with K = V = history: float32 [M, D].

    Keys and values are the encoded history itself (iQIYI, 3.2.3). A temperature above 1 flattens the softmax, so
    that a query reads many events rather than one. One attention head; the source names no number.

    Padding has weight zero. A row without a valid event gives exactly zero: softmax alone would give it the mean of
    the padding.
    """
    scores_M1T = torch.matmul(query_MD.unsqueeze(1), history_MTD.transpose(1, 2))
    scores_M1T = scores_M1T * (1 / (math.sqrt(query_MD.shape[1]) * temperature))
    weights_M1T = torch.softmax(torch.where(valid_MT.unsqueeze(1), scores_M1T, MASKED), dim=-1)
    read_MD = torch.matmul(weights_M1T, history_MTD).squeeze(1)
    return read_MD * valid_MT.any(dim=1, keepdim=True).to(read_MD.dtype)
