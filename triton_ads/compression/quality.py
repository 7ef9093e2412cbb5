"""What a model is worth after compression: perplexity, and how far its answers are the uncompressed model's.

Legend: S sequences, T tokens.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from triton_ads.compression.llama import Llama, next_token_loss


@torch.inference_mode()
def perplexity(model: Llama, ids_ST: NDArray[np.int64]) -> float:
    """exp of the mean loss of all tokens but the first of each sequence, natural logarithm."""
    losses = [next_token_loss(model(ids_T[None]), ids_T[None]).item() for ids_T in torch.from_numpy(ids_ST)]
    return math.exp(sum(losses) / len(losses))


@torch.inference_mode()
def greedy_continuations(model: Llama, prompts_ST: NDArray[np.int64], tokens: int) -> NDArray[np.int64]:
    """Prompts and the `tokens` most likely tokens after them, one by one: int64 [S, T + tokens].

    Without a cache: made for a few short prompts.
    """
    ids_ST = torch.from_numpy(prompts_ST)
    for _ in range(tokens):
        x_STD = model.model.norm(model.between(model.model.embed_tokens(ids_ST), 0, model.config.layers))
        ids_ST = torch.cat((ids_ST, model.lm_head(x_STD[:, -1:]).argmax(-1)), dim=1)
    return ids_ST.numpy()


@dataclass(frozen=True)
class Agreement:
    """Of greedy continuations with those of another model.

    tokens: share of tokens that the model would choose as well, given the other's tokens before them.
    prefix: mean number of tokens before the two continuations part.
    """

    tokens: float
    prefix: float


@torch.inference_mode()
def agreement(model: Llama, continued_ST: NDArray[np.int64], prompt_tokens: int) -> Agreement:
    """Compare with `greedy_continuations` of another model.

    One pass over the other model's continuations tells both figures: until they part, both models read the same.
    """
    chosen_ST = model(torch.from_numpy(continued_ST[:, :-1]))[:, prompt_tokens - 1 :].argmax(-1).numpy()
    same_ST = chosen_ST == continued_ST[:, prompt_tokens:]
    return Agreement(float(same_ST.mean()), float(np.cumprod(same_ST, axis=1).sum(axis=1).mean()))
