"""Small checkpoints as they are published: a Hugging Face folder, a GGUF file."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, quants
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

#: Tokens of a byte-level BPE: a control token, letters, a space (as GPT-2 writes it), digits, two merges.
TOKENS = ["<end>", *"abcdefghijklmnopqrstuvwxyz", "Ġ", *"0123456789", "ab", "Ġa"]
MERGES = [("a", "b"), ("Ġ", "a")]
SIZES: dict[str, Any] = {
    "vocab_size": len(TOKENS), "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5, "bos_token_id": None, "eos_token_id": 0, "pad_token_id": None,
}  # fmt: skip


def tokenizer() -> Tokenizer:
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(TOKENS)}, MERGES))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<end>"])
    return made


def hugging_face_model(tied: bool = True, **changes: Any) -> LlamaForCausalLM:
    """Random weights, large enough that every layer matters."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZES, "tie_word_embeddings": tied, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.ndim > 1 else 0.1) + (parameter.ndim == 1))
    return model


def save_folder(
    folder: Path, model: LlamaForCausalLM, shard_size: str = "5GB", tokens: Tokenizer | None = None
) -> Path:
    """As `save_pretrained` writes it, with a tokenizer."""
    model.save_pretrained(folder, max_shard_size=shard_size)
    (tokens or tokenizer()).save(str(folder / "tokenizer.json"))
    return folder


def llama_cpp_rows(weight_NK: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """q and k as llama.cpp's converter writes them: rows i and half + i of a head become neighbours."""
    rows, columns = weight_NK.shape
    return weight_NK.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


_GGUF_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def gguf_name(name: str) -> str:
    """Of a Hugging Face parameter."""
    name = name.removesuffix(".weight")
    if name.startswith("model.layers."):
        _, _, number, kind = name.split(".", 3)
        return f"blk.{number}.{_GGUF_NAMES[kind]}.weight"
    return {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}[name] + ".weight"


def save_gguf(path: Path, model: LlamaForCausalLM, kind: GGMLQuantizationType, **fields: Any) -> Path:
    """Matrices quantised to `kind`, norms float32. `fields` replaces metadata by its name; None leaves it out."""
    config = model.config
    writer = GGUFWriter(path, "llama")
    written = {
        "llama.block_count": config.num_hidden_layers, "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size, "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.key_length": config.head_dim, "llama.rope.dimension_count": config.head_dim,
        "tokenizer.ggml.eos_token_id": 0,
        "llama.rope.freq_base": 10000.0, "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        **fields,
    }  # fmt: skip
    for name, value in written.items():
        if value is None:
            continue
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(name, value)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, *[1] * (len(TOKENS) - 1)])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    for name, parameter in model.named_parameters():
        weight = parameter.detach().numpy()
        if name.endswith("q_proj.weight"):
            weight = llama_cpp_rows(weight, config.num_attention_heads)
        elif name.endswith("k_proj.weight"):
            weight = llama_cpp_rows(weight, config.num_key_value_heads)
        if weight.ndim == 1:
            writer.add_tensor(gguf_name(name), weight.astype(np.float32))
        else:
            writer.add_tensor(gguf_name(name), quants.quantize(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
