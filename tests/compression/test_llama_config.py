"""The numbers of a decoder: rotary frequencies as Hugging Face has them, text that comes back, what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import LlamaConfig as HuggingFaceConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from tests.support.random_llama import config_of
from triton_ads.compression.llama_config import LlamaConfig, LlamaConfigError, frequencies_of_hugging_face

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192, "rope_theta": 500000.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "default", "rope_theta": 10000.0},
        {"rope_type": "default", "rope_theta": 100000.0},
        {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
        LLAMA3,
    ],
)
@pytest.mark.parametrize("head_dim", [2, 64, 128])
def test_frequencies(scaling: dict[str, object], head_dim: int) -> None:
    config = HuggingFaceConfig(hidden_size=4 * head_dim, num_attention_heads=4, head_dim=head_dim,
                               max_position_embeddings=65536, rope_parameters=scaling)  # fmt: skip
    wanted = LlamaRotaryEmbedding(config).inv_freq.to(torch.float32).numpy()
    np.testing.assert_allclose(frequencies_of_hugging_face({"rope_parameters": scaling}, head_dim), wanted, rtol=3e-7)


def test_names_of_older_configurations() -> None:
    """`rope_theta` on its own and `rope_scaling` with `type`, as checkpoints before 2026 have them."""
    old = {"rope_theta": 500000.0, "rope_scaling": {k: v for k, v in LLAMA3.items() if k != "rope_theta"}}
    np.testing.assert_array_equal(
        frequencies_of_hugging_face(old, 64), frequencies_of_hugging_face({"rope_parameters": LLAMA3}, 64)
    )
    found = frequencies_of_hugging_face({"rope_scaling": {"type": "linear", "factor": 2.0}}, 4)
    np.testing.assert_allclose(found, [0.5, 0.005], rtol=1e-6)


def test_text_comes_back() -> None:
    config = replace(config_of(), bos_token=3, eos_tokens=(1, 2))
    assert LlamaConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the configuration is no JSON"),
        ("[]", "the configuration does not hold exactly"),
        ("{}", "the configuration does not hold exactly"),
        (config_of().to_json().replace("48", "-48"), "hidden is -48; a whole number from 1"),
        (config_of().to_json().replace("48", "48.5"), "hidden is 48.5; a whole number"),
        (config_of().to_json().replace("48", "true"), "hidden is True; a whole number"),
        (config_of().to_json().replace("[0]", "0"), "eos_tokens is 0; a list is allowed"),
        (config_of().to_json().replace("[0]", '["a"]'), "special token 'a'; 0 to 100 allowed"),
        (config_of().to_json().replace("1e-05", "1"), "epsilon is 1; a number between 0 and 1"),
        (config_of().to_json().replace("1e-05", "NaN"), "epsilon is nan; a number between 0 and 1"),
        (config_of().to_json().replace("true", "1"), "tied is 1; true and false are allowed"),
        ("[" * 100000, "the configuration is no JSON"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(LlamaConfigError, match=re.escape(message)):
        LlamaConfig.from_json(text)
