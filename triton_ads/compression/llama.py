"""The llama architecture in PyTorch, for what compression needs of it: activations, gradients, losses, training.

Modules carry the names of Hugging Face's LlamaForCausalLM, so that its state dict loads as it is. Serving has a forward
of its own without PyTorch; this one has no cache and takes whole sequences.

Legend: S sequences, T tokens, D width, H heads, G key and value heads, E width of a head, V vocabulary.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from triton_ads.compression.checkpoint import Checkpoint
from triton_ads.compression.llama_config import EMBEDDINGS, HEAD, LlamaConfig

#: More layers than any model has.
_BEYOND: Final = 1 << 24


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019)."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x_STD: Tensor) -> Tensor:
        return functional.rms_norm(x_STD, x_STD.shape[-1:], self.weight, self.epsilon)


def rotated(x_SHTE: Tensor, angle_TE: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021), halves paired as in Hugging Face's checkpoints."""
    low, high = x_SHTE.chunk(2, dim=-1)
    return x_SHTE * angle_TE.cos() + torch.cat((-high, low), dim=-1) * angle_TE.sin()


class Attention(nn.Module):
    """Causal attention; several query heads share one key and value head."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_width = config.head_dim
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden, queries, bias=False)
        self.k_proj = nn.Linear(config.hidden, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden, bias=False)

    def forward(self, x_STD: Tensor, angle_TE: Tensor) -> Tensor:
        q_SHTE, k_SGTE, v_SGTE = (
            projection(x_STD).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        y_SHTE = functional.scaled_dot_product_attention(
            rotated(q_SHTE, angle_TE), rotated(k_SGTE, angle_TE), v_SGTE, is_causal=True, enable_gqa=True
        )
        return self.o_proj(y_SHTE.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)

    def forward(self, x_STD: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x_STD)) * self.up_proj(x_STD))


class Block(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden, config.epsilon)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden, config.epsilon)
        self.mlp = MLP(config)

    def forward(self, x_STD: Tensor, angle_TE: Tensor) -> Tensor:
        x_STD = x_STD + self.self_attn(self.input_layernorm(x_STD), angle_TE)
        return x_STD + self.mlp(self.post_attention_layernorm(x_STD))


class Body(nn.Module):
    """Everything but the head."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.hidden, config.epsilon)
        self.frequencies: Tensor

    def angles(self, tokens: int) -> Tensor:
        """Angle of every position and place of a head, [T, E]."""
        return torch.arange(tokens)[:, None] * self.frequencies.repeat(2)


class Llama(nn.Module):
    """The model. The head's matrix is a parameter of its own even where the checkpoint ties it to the embedding:
    compressing the head leaves the embedding alone."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Body(config)
        self.lm_head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    def forward(self, ids_ST: Tensor) -> Tensor:
        """Logits [S, T, V]."""
        return self.from_layer(self.model.embed_tokens(ids_ST), 0)

    def from_layer(self, x_STD: Tensor, first: int) -> Tensor:
        """Logits of the layers from `first` on, given what enters that layer."""
        x_STD = self.between(x_STD, first, self.config.layers)
        return self.lm_head(self.model.norm(x_STD))

    def between(self, x_STD: Tensor, first: int, last: int) -> Tensor:
        """What enters layer `last`, given what enters layer `first`."""
        angle_TE = self.model.angles(x_STD.shape[1])
        for layer in self.model.layers[first:last]:
            x_STD = layer(x_STD, angle_TE)
        return x_STD


def build_llama(checkpoint: Checkpoint) -> Llama:
    """The model with the weights of a checkpoint, in float32, without gradients.

    Raises CheckpointError where a weight is missing or does not fit the configuration.
    """
    config = checkpoint.config
    with torch.device("meta"):
        model = Llama(config)
    names = [*config.linear_layers(), *config.norms(), EMBEDDINGS]
    tensors = {f"{name}.weight": torch.tensor(checkpoint.weight(name)) for name in names}
    model.load_state_dict(tensors, assign=True)
    model.model.frequencies = torch.from_numpy(checkpoint.frequencies)
    return model.requires_grad_(False)


def linear_layers(model: Llama) -> Iterator[tuple[str, nn.Linear]]:
    """Every matrix that can be compressed, by name, from the first layer to the head."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            yield name, module


@contextmanager
def with_weights(model: Llama, weights_NK: Mapping[str, NDArray[np.float32]]) -> Iterator[Llama]:
    """The model with other weights in the matrices named, within a `with` block."""
    layers = {name: layer for name, layer in linear_layers(model) if name in weights_NK}
    own = {name: layer.weight.data for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            layer.weight.data = torch.from_numpy(weights_NK[name])
        yield model
    finally:
        for name, layer in layers.items():
            layer.weight.data = own[name]


def layer_of(name: str) -> int:
    """The number of the layer in which the matrix stands; the head's is beyond every layer's."""
    return _BEYOND if name == HEAD else int(name.split(".")[2])


def next_token_loss(logits_STV: Tensor, ids_ST: Tensor) -> Tensor:
    """Mean cross-entropy of every token after the first, in nats."""
    return functional.cross_entropy(logits_STV[:, :-1].flatten(0, 1), ids_ST[:, 1:].flatten())
