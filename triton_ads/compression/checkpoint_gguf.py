"""A GGUF file of a llama-family model: its numbers, its dequantised tensors under Hugging Face's names, its tokenizer.

The package `gguf`, which llama.cpp's authors keep, reads and dequantises. Two conventions are undone here: llama.cpp
stores the rows of q and k in the order of its own rotary positions (pairs of neighbours), and names tensors its own
way.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize
from numpy.typing import NDArray

from triton_ads.compression.checkpoint_error import CheckpointError
from triton_ads.compression.gguf_tokenizer import tokenizer_json
from triton_ads.compression.llama_config import LlamaConfig, LlamaConfigError, inverse_frequencies

_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def open_gguf(
    path: Path,
) -> tuple[LlamaConfig, NDArray[np.float32], Callable[[str], NDArray[np.float32]], str]:
    """The parts of a Checkpoint. Raises CheckpointError for a file that is damaged or of another architecture."""
    try:
        reader = GGUFReader(path)
        fields: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {tensor.name: tensor for tensor in reader.tensors}
    # The package raises whatever it stumbles over, from ValueError to IndexError.
    except Exception as error:
        raise CheckpointError(f"{path}: no GGUF file that can be read: {type(error).__name__}: {error}") from error
    try:
        config = _config_of(fields, tensors)
        frequencies = _frequencies_of(fields, tensors, config.head_dim)
        tokenizer = tokenizer_json(fields)
    except (LlamaConfigError, CheckpointError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    except KeyError as error:
        raise CheckpointError(f"{path}: the field {error} is missing") from error

    def tensor(name: str) -> NDArray[np.float32]:
        found = tensors.get(_gguf_name(name))
        if found is None:
            raise CheckpointError(f"{path}: {_gguf_name(name)} is missing")
        try:
            weight = dequantize(found.data, found.tensor_type)
        except NotImplementedError as error:
            raise CheckpointError(f"{path}: {found.name} is {found.tensor_type.name}: {error}") from error
        weight = np.ascontiguousarray(weight.reshape(tuple(int(side) for side in found.shape[::-1])), np.float32)
        if name.endswith("q_proj"):
            return _rotary_rows(weight, config.heads)
        return _rotary_rows(weight, config.kv_heads) if name.endswith("k_proj") else weight

    return config, frequencies, tensor, tokenizer


def _gguf_name(name: str) -> str:
    if name.startswith("model.layers."):
        number, _, kind = name.removeprefix("model.layers.").partition(".")
        return f"blk.{number}.{_LAYER_NAMES[kind]}.weight"
    return f"{_NAMES[name]}.weight"


def _rotary_rows(weight_NK: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """From pairs of neighbours to halves: row 2 i of a head becomes row i, row 2 i + 1 row half + i."""
    rows, columns = weight_NK.shape
    return weight_NK.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _config_of(fields: dict[str, Any], tensors: dict[str, Any]) -> LlamaConfig:
    if fields["general.architecture"] != "llama":
        raise CheckpointError(f"architecture is {fields['general.architecture']!r}; 'llama' is allowed")
    heads, hidden = fields["llama.attention.head_count"], fields["llama.embedding_length"]
    eos = fields.get("tokenizer.ggml.eos_token_id")
    return LlamaConfig(
        hidden=hidden,
        intermediate=fields["llama.feed_forward_length"],
        layers=fields["llama.block_count"],
        heads=heads,
        kv_heads=fields.get("llama.attention.head_count_kv", heads),
        head_dim=fields.get("llama.attention.key_length", hidden // max(heads, 1)),
        vocabulary=len(fields["tokenizer.ggml.tokens"]),
        positions=fields["llama.context_length"],
        # Stored as float32: 1e-5 comes back as 9.99999974738e-06.
        epsilon=float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        tied="output.weight" not in tensors,
        bos_token=fields.get("tokenizer.ggml.bos_token_id"),
        eos_tokens=() if eos is None else (eos,),
    )


def _frequencies_of(fields: dict[str, Any], tensors: dict[str, Any], head_dim: int) -> NDArray[np.float32]:
    kind = fields.get("llama.rope.scaling.type", "none")
    if kind not in ("none", "linear"):
        raise CheckpointError(f"rotary scaling is {kind!r}; 'none' and 'linear' are allowed")
    if fields.get("llama.rope.dimension_count", head_dim) != head_dim:
        raise CheckpointError(
            f"{fields['llama.rope.dimension_count']} dimensions turn; all {head_dim} of a head are allowed"
        )
    plain = inverse_frequencies(float(fields.get("llama.rope.freq_base", 10000.0)), head_dim)
    if kind == "linear":
        plain = (plain / np.float32(fields["llama.rope.scaling.factor"])).astype(np.float32)
    if "rope_freqs.weight" in tensors:  # how llama.cpp stores llama3 scaling
        plain = (plain / tensors["rope_freqs.weight"].data.astype(np.float32)).astype(np.float32)
    return plain
