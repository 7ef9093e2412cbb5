"""Small random decoders, packed, and what they compute by a plain reference in float64.

Legend: T tokens, D hidden width, H query heads, E width of a head, V vocabulary.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models

from triton_ads.compression.bf16 import from_bf16
from triton_ads.compression.checkpoint import Checkpoint
from triton_ads.compression.llama_config import EMBEDDINGS, FINAL_NORM, HEAD, LlamaConfig, inverse_frequencies
from triton_ads.compression.pack_model import LayerFormat, pack_model
from triton_ads.compression.packed_model import PackedModel
from triton_ads.compression.packing import dequantised
from triton_ads.compression.patterns import Pattern, Values

THETA = 10000.0
#: Whatever a matrix may be packed as.
FORMATS = [LayerFormat(pattern, values) for pattern in Pattern for values in Values]
EXACT = LayerFormat(Pattern.DENSE, Values.BF16)


def config_of(
    hidden: int = 48,
    intermediate: int = 80,
    layers: int = 2,
    heads: int = 6,
    kv_heads: int = 2,
    head_dim: int = 8,
    vocabulary: int = 101,
    positions: int = 256,
    tied: bool = True,
) -> LlamaConfig:
    return LlamaConfig(
        hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary, positions, 1e-5, tied,
        bos_token=None, eos_tokens=(0,),
    )  # fmt: skip


@cache
def tokenizer_json(vocabulary: int) -> str:
    """A tokenizer whose tokens are the words t0, t1, ..."""
    return Tokenizer(models.WordLevel({f"t{number}": number for number in range(vocabulary)}, "t0")).to_str()


def random_checkpoint(config: LlamaConfig, seed: int = 0) -> Checkpoint:
    """Weights of a size that lets every layer matter: attention is far from uniform, logits spread over some units."""
    shapes: dict[str, tuple[int, ...]] = {**config.linear_layers(), EMBEDDINGS: (config.vocabulary, config.hidden)}

    def tensor(name: str) -> NDArray[np.float32]:
        rng = np.random.default_rng([seed, *name.encode()])
        if name not in shapes:
            return (1 + 0.2 * rng.standard_normal(config.hidden)).astype(np.float32)
        scale = 1.0 if name in (EMBEDDINGS, HEAD) else 1.5 / np.sqrt(shapes[name][1])
        return (scale * rng.standard_normal(shapes[name])).astype(np.float32)

    frequencies = inverse_frequencies(THETA, config.head_dim)
    return Checkpoint(config, frequencies, tensor, tokenizer_json(config.vocabulary))


def random_model(
    config: LlamaConfig, choose: Callable[[str], LayerFormat] = lambda name: EXACT, seed: int = 0
) -> PackedModel:
    """Packed as `choose` says; by default dense BF16, which leaves float32 summation as the only error."""
    return pack_model(random_checkpoint(config, seed), choose)


class Reference:
    """A packed model's dequantised weights, run in float64 over a plain sequence."""

    def __init__(self, model: PackedModel) -> None:
        self._model = model
        self._weights = {name: dequantised(matrix).astype(np.float64) for name, matrix in model.matrices.items()}

    def logits(self, tokens: list[int]) -> NDArray[np.float64]:
        """[T, V]: logits after each token."""
        model, config = self._model, self._model.config
        angles_TE = np.arange(len(tokens))[:, None] * model.frequencies.astype(np.float64)
        cosine_T1E, sine_T1E = np.cos(angles_TE)[:, None], np.sin(angles_TE)[:, None]
        seen_TT = np.tri(len(tokens), dtype=bool)
        group = config.heads // config.kv_heads

        def rotated(x_THE: NDArray[np.float64]) -> NDArray[np.float64]:
            first, second = np.split(x_THE, 2, axis=2)
            turned = first * cosine_T1E - second * sine_T1E, second * cosine_T1E + first * sine_T1E
            return np.concatenate(turned, axis=2)

        x_TD = from_bf16(model.embeddings_VD[tokens]).astype(np.float64)
        for layer in range(config.layers):
            at = f"model.layers.{layer}"

            def product(name: str, x_TK: NDArray[np.float64], at: str = at) -> NDArray[np.float64]:
                return x_TK @ self._weights[f"{at}.{name}"].T

            normed_TD = self._normed(f"{at}.input_layernorm", x_TD)
            q, k, v = (
                product(f"self_attn.{name}_proj", normed_TD).reshape(len(tokens), -1, config.head_dim) for name in "qkv"
            )
            q, k = rotated(q), np.repeat(rotated(k), group, axis=1)
            scores_HTT = np.einsum("the,she->hts", q, k) / np.sqrt(config.head_dim)
            scores_HTT = np.where(seen_TT, scores_HTT, -np.inf)
            shares_HTT = np.exp(scores_HTT - scores_HTT.max(axis=2, keepdims=True))
            shares_HTT /= shares_HTT.sum(axis=2, keepdims=True)
            mixed = np.einsum("hts,she->the", shares_HTT, np.repeat(v, group, axis=1)).reshape(len(tokens), -1)
            x_TD = x_TD + product("self_attn.o_proj", mixed)
            normed_TD = self._normed(f"{at}.post_attention_layernorm", x_TD)
            gate, up = product("mlp.gate_proj", normed_TD), product("mlp.up_proj", normed_TD)
            x_TD = x_TD + product("mlp.down_proj", gate / (1 + np.exp(-gate)) * up)
        return self._normed(FINAL_NORM, x_TD) @ self._weights[HEAD].T

    def _normed(self, name: str, x_TD: NDArray[np.float64]) -> NDArray[np.float64]:
        mean_T1 = np.mean(x_TD**2, axis=1, keepdims=True)
        return x_TD / np.sqrt(mean_T1 + self._model.config.epsilon) * self._model.norms[name]


def relative_error(found: NDArray[np.float32], wanted: NDArray[np.floating]) -> float:
    """Root mean square of the differences as a share of the wanted values' own."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
