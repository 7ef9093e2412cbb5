"""The decoder to measure with: 12 layers of width 512, random weights, the same in ours and in Hugging Face's.

Random, so nothing of the time depends on training; scaled so that its distributions are neither flat nor certain.
"""

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.checkpoint import Checkpoint
from triton_ads.compression.llama_config import EMBEDDINGS, HEAD, LlamaConfig, inverse_frequencies
from triton_ads.compression.pack_model import Choose, pack_model
from triton_ads.compression.packed_model import PackedModel

THETA = 10_000.0
VOCABULARY = 8192


def target_config() -> LlamaConfig:
    """12 x 512: the decoder of the measurements that we compare with."""
    return LlamaConfig(
        hidden=512,
        intermediate=1376,
        layers=12,
        heads=8,
        kv_heads=8,
        head_dim=64,
        vocabulary=VOCABULARY,
        positions=2048,
        epsilon=1e-6,
        tied=False,
    )


def random_decoder(choose: Choose, seed: int = 0) -> PackedModel:
    """Packed as `choose` says."""
    config = target_config()
    shapes: dict[str, tuple[int, ...]] = {**config.linear_layers(), EMBEDDINGS: (config.vocabulary, config.hidden)}

    def tensor(name: str) -> NDArray[np.float32]:
        random = np.random.default_rng([seed, *name.encode()])
        if name not in shapes:
            return np.ones(config.hidden, np.float32)
        scale = {EMBEDDINGS: 1.0, HEAD: 1 / np.sqrt(config.hidden)}.get(name, 1.1 / np.sqrt(shapes[name][1]))
        return (scale * random.standard_normal(shapes[name])).astype(np.float32)

    checkpoint = Checkpoint(config, inverse_frequencies(THETA, config.head_dim), tensor, tokenizer="{}")
    return pack_model(checkpoint, choose)
