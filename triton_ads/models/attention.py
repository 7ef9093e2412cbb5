"""Cross-attention over a history: of one query a row, and of several in several heads."""

# Legend: M rows, T events, D token width, Q queries, H heads, d = D / H.

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
    read_MD = _read(query_MD.unsqueeze(1), history_MTD, valid_MT.unsqueeze(1), temperature).squeeze(1)
    return read_MD * valid_MT.any(dim=1, keepdim=True).to(read_MD.dtype)


def attend_all(queries_MQD: Tensor, history_MTD: Tensor, valid_MT: Tensor, temperature: float, heads: int) -> Tensor:
    """`attend` for Q queries a row and several heads: float32 [M, Q, D].

    A head is a span of D / heads floats of queries and history, with a softmax of its own over scores divided by
    `sqrt(D / heads) temperature`; what the heads read stands side by side. (Vaswani et al. 2017, 3.2.2, without
    projections of keys and values.)
    """
    any_M11 = valid_MT.any(dim=1)[:, None, None].to(queries_MQD.dtype)
    if heads == 1:  # no axis of its own: the fewest operators
        return _read(queries_MQD, history_MTD, valid_MT.unsqueeze(1), temperature) * any_M11
    queries_MHQd = queries_MQD.unflatten(2, (heads, -1)).transpose(1, 2)
    history_MHTd = history_MTD.unflatten(2, (heads, -1)).transpose(1, 2)
    read_MHQd = _read(queries_MHQd, history_MHTd, valid_MT[:, None, None], temperature)
    return read_MHQd.transpose(1, 2).flatten(2) * any_M11


def _read(queries_Qd: Tensor, history_Td: Tensor, valid_T: Tensor, temperature: float) -> Tensor:
    """[..., Q, d] of [..., Q, d], [..., T, d] and a mask that broadcasts to [..., Q, T]."""
    scores_QT = torch.matmul(queries_Qd, history_Td.transpose(-1, -2))
    scores_QT = scores_QT * (1 / (math.sqrt(queries_Qd.shape[-1]) * temperature))
    return torch.matmul(torch.softmax(torch.where(valid_T, scores_QT, MASKED), dim=-1), history_Td)
