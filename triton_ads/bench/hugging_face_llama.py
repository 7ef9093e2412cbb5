"""A packed model's dequantised weights in Hugging Face's LlamaForCausalLM, in float32."""

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

from triton_ads.compression.bf16 import from_bf16
from triton_ads.compression.llama_config import EMBEDDINGS
from triton_ads.compression.packed_model import PackedModel
from triton_ads.compression.packing import dequantised


def hugging_face(model: PackedModel, theta: float) -> LlamaForCausalLM:
    config = model.config
    reference = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocabulary,
            hidden_size=config.hidden,
            intermediate_size=config.intermediate,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.positions,
            rms_norm_eps=config.epsilon,
            tie_word_embeddings=False,  # the packed head is rounded, the embeddings are not
            rope_parameters={"rope_type": "default", "rope_theta": theta},
        )
    )
    weights = {f"{name}.weight": dequantised(matrix) for name, matrix in model.matrices.items()}
    weights |= {f"{name}.weight": norm for name, norm in model.norms.items()}
    weights[f"{EMBEDDINGS}.weight"] = from_bf16(model.embeddings_VD)
    reference.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return reference.eval()


def logits_of(reference: LlamaForCausalLM, tokens: list[int]) -> NDArray[np.float32]:
    """Logits after each token of a plain sequence, float32 [T, V]."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that wait for each other in so small a model take a hundred times as long
    try:
        with torch.inference_mode():
            return reference(torch.tensor([tokens])).logits[0].numpy()
    finally:
        torch.set_num_threads(threads)
