"""The numbers of a llama-family decoder, checked; and its rotary frequencies."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Widths and counts stay far below what a 32-bit index holds.
_MOST: Final = 1 << 24
#: The widest head that the kernels take.
HEAD_DIM_MAX: Final = 256


class LlamaConfigError(ValueError):
    """A configuration that is no llama-family decoder of ours; the message names the value and what is allowed."""


@dataclass(frozen=True)
class LlamaConfig:
    """One decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU, no biases."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    positions: int
    """Positions that the model was made for."""
    epsilon: float
    tied: bool
    """Whether the output head was the embeddings."""
    bos_token: int | None = None
    eos_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("hidden", "intermediate", "layers", "heads", "kv_heads", "head_dim", "vocabulary", "positions"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= _MOST:
                raise LlamaConfigError(f"{name} is {value!r}; a whole number from 1 to {_MOST} is allowed")
        if self.heads % self.kv_heads:
            raise LlamaConfigError(f"heads is {self.heads}, kv_heads {self.kv_heads}; the first must be a multiple")
        if self.head_dim % 2 or self.head_dim > HEAD_DIM_MAX:
            raise LlamaConfigError(f"head_dim is {self.head_dim}; an even number up to {HEAD_DIM_MAX} is allowed")
        if not isinstance(self.epsilon, float) or not 0 < self.epsilon < 1:
            raise LlamaConfigError(f"epsilon is {self.epsilon!r}; a number between 0 and 1 is allowed")
        if type(self.tied) is not bool:
            raise LlamaConfigError(f"tied is {self.tied!r}; true and false are allowed")
        for token in (*self.eos_tokens, *(() if self.bos_token is None else (self.bos_token,))):
            if type(token) is not int or not 0 <= token < self.vocabulary:
                raise LlamaConfigError(f"special token {token!r}; 0 to {self.vocabulary - 1} allowed")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "LlamaConfig":
        """Raises LlamaConfigError for text that `to_json` did not write."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LlamaConfigError(f"the configuration is no JSON: {error}") from error
        names = {one.name for one in fields(cls)}
        if not isinstance(found, dict) or set(found) != names:
            raise LlamaConfigError(f"the configuration does not hold exactly {sorted(names)}")
        eos = found["eos_tokens"]
        if not isinstance(eos, list):
            raise LlamaConfigError(f"eos_tokens is {eos!r}; a list is allowed")
        return cls(**{**found, "eos_tokens": tuple(eos)})

    def linear_layers(self) -> dict[str, tuple[int, int]]:
        """Every matrix that a decoder multiplies by, named as Hugging Face does: (outputs, inputs)."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        found = {}
        for layer in range(self.layers):
            at = f"model.layers.{layer}"
            found[f"{at}.self_attn.q_proj"] = (queries, self.hidden)
            found[f"{at}.self_attn.k_proj"] = (keys, self.hidden)
            found[f"{at}.self_attn.v_proj"] = (keys, self.hidden)
            found[f"{at}.self_attn.o_proj"] = (self.hidden, queries)
            found[f"{at}.mlp.gate_proj"] = (self.intermediate, self.hidden)
            found[f"{at}.mlp.up_proj"] = (self.intermediate, self.hidden)
            found[f"{at}.mlp.down_proj"] = (self.hidden, self.intermediate)
        return {**found, HEAD: (self.vocabulary, self.hidden)}

    def norms(self) -> list[str]:
        """Names of all RMSNorm weights, each [hidden]."""
        layers = range(self.layers)
        kinds = ("input_layernorm", "post_attention_layernorm")
        return [*(f"model.layers.{layer}.{kind}" for layer in layers for kind in kinds), FINAL_NORM]


#: The output head; its matrix is the embeddings' where a model is tied.
HEAD: Final = "lm_head"
EMBEDDINGS: Final = "model.embed_tokens"
FINAL_NORM: Final = "model.norm"


def config_of_hugging_face(found: Mapping[str, Any]) -> LlamaConfig:
    """From the `config.json` of a llama-family checkpoint.

    Raises LlamaConfigError for another architecture, for biases, another activation and missing keys.
    """
    if found.get("model_type") != "llama":
        raise LlamaConfigError(f"model_type is {found.get('model_type')!r}; 'llama' is allowed")
    if found.get("hidden_act", "silu") != "silu":
        raise LlamaConfigError(f"hidden_act is {found['hidden_act']!r}; 'silu' is allowed")
    for bias in ("attention_bias", "mlp_bias"):
        if found.get(bias, False):
            raise LlamaConfigError(f"{bias} is {found[bias]!r}; a decoder without biases is allowed")
    try:
        heads, hidden = found["num_attention_heads"], found["hidden_size"]
        eos = found.get("eos_token_id")
        return LlamaConfig(
            hidden=hidden,
            intermediate=found["intermediate_size"],
            layers=found["num_hidden_layers"],
            heads=heads,
            kv_heads=found.get("num_key_value_heads") or heads,
            head_dim=found.get("head_dim") or hidden // heads,
            vocabulary=found["vocab_size"],
            positions=found["max_position_embeddings"],
            epsilon=float(found["rms_norm_eps"]),
            tied=found.get("tie_word_embeddings", False),
            bos_token=found.get("bos_token_id"),
            eos_tokens=tuple(eos) if isinstance(eos, list) else () if eos is None else (eos,),
        )
    except KeyError as error:
        raise LlamaConfigError(f"config.json lacks {error}") from error
    except (TypeError, ZeroDivisionError) as error:
        raise LlamaConfigError(f"config.json holds a value of the wrong kind: {error}") from error


def frequencies_of_hugging_face(found: Mapping[str, Any], head_dim: int) -> NDArray[np.float32]:
    """Float32 [head_dim / 2], radians a position: plain, linear and llama3 scaling as Hugging Face computes them.

    Raises LlamaConfigError for another kind of scaling.
    """
    scaling = {**(found.get("rope_scaling") or {}), **(found.get("rope_parameters") or {})}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    try:
        plain = inverse_frequencies(float(scaling.get("rope_theta", found.get("rope_theta", 10000.0))), head_dim)
        if kind == "default":
            return plain
        if kind == "linear":
            return (plain / np.float32(scaling["factor"])).astype(np.float32)
        if kind == "llama3":
            return _llama3(plain, scaling)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise LlamaConfigError(f"rotary scaling {scaling!r} lacks a valid {error}") from error
    raise LlamaConfigError(f"rotary scaling is {kind!r}; 'default', 'linear' and 'llama3' are allowed")


def inverse_frequencies(theta: float, head_dim: int) -> NDArray[np.float32]:
    """theta^(-2 i / head_dim), in float32 throughout, as models are trained."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    return (np.float32(1.0) / np.power(np.float32(theta), exponents)).astype(np.float32)


def _llama3(plain: NDArray[np.float32], scaling: Mapping[str, Any]) -> NDArray[np.float32]:
    """Long wavelengths are stretched by `factor`, short ones left alone, those between blended."""
    factor, length = float(scaling["factor"]), float(scaling["original_max_position_embeddings"])
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    wavelength = 2 * math.pi / plain
    smooth = (length / wavelength - low) / (high - low)
    blended = (1 - smooth) * plain / factor + smooth * plain
    stretched = np.where(wavelength > length / low, plain / factor, blended)
    return np.where(wavelength < length / high, plain, stretched).astype(np.float32)
