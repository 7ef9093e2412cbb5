"""Logits are those of the dequantised model in Hugging Face's LlamaForCausalLM: prompts, steps, nodes of a tree.

Tolerances are of the root mean square over the logits' own. Float32 against float32: 1e-5. INT4 weights with 16-bit
activations: 2e-3; a float16 cache: 5e-3 (kernels/test_decoder.py says what each rounding alone does).
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.random_llama import FORMATS, THETA, config_of, random_model, relative_error
from triton_ads.bench.decode import DecodeBenchError, smollm2
from triton_ads.bench.hugging_face_llama import hugging_face, logits_of
from triton_ads.compression.checkpoint import Checkpoint, open_checkpoint
from triton_ads.compression.pack_model import LayerFormat, pack_model, uniform
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.serving.decoder import Decoder, Tokenizer

CONFIGS = [
    config_of(),
    config_of(hidden=36, heads=3, kv_heads=3, head_dim=10, intermediate=33, vocabulary=50, tied=False, layers=3),
    config_of(hidden=128, heads=8, kv_heads=1, head_dim=16, layers=4),
]


def limit_of(how: LayerFormat, cache: str) -> float:
    if cache == "float16":
        return 5e-3
    return 1e-5 if how.values is Values.BF16 else 2e-3


@pytest.mark.parametrize("cache", ["float32", "float16"])
@pytest.mark.parametrize("how", FORMATS)
@pytest.mark.parametrize("config", CONFIGS)
def test_prompts_steps_and_trees(config, how: LayerFormat, cache) -> None:  # type: ignore[no-untyped-def]
    model = random_model(config, lambda name: how)
    reference = hugging_face(model, THETA)
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, config.vocabulary, 60).tolist()
    wanted = logits_of(reference, prompt)
    limit = limit_of(how, cache)

    whole = Decoder(model).sequence(60, cache=cache).extend(prompt, "all")
    assert relative_error(whole, wanted) < limit
    sequence = Decoder(model).sequence(60, 8, cache=cache)
    sequence.extend(prompt[:40], "none")
    steps = np.concatenate([sequence.extend([token]) for token in prompt[40:]])
    assert relative_error(steps, wanted[40:]) < limit

    # Two beams, the second of which branches; the last node goes on from the first branch.
    tokens, parents = rng.integers(0, config.vocabulary, 6).tolist(), [-1, -1, 1, 1, 3, 2]
    found = np.concatenate([sequence.grow(tokens[:2], parents[:2]), sequence.grow(tokens[2:], parents[2:])])
    for node, path in enumerate([[0], [1], [1, 2], [1, 3], [1, 3, 4], [1, 2, 5]]):
        own = logits_of(reference, prompt + [tokens[one] for one in path])[-1]
        assert relative_error(found[node], own) < limit


@pytest.fixture(scope="module")
def smollm2_cut() -> Checkpoint:
    """SmolLM2-135M with its first three layers: real weights, real outliers, and quick."""
    try:
        checkpoint = open_checkpoint(smollm2())
    except DecodeBenchError as error:
        pytest.skip(str(error))
    return replace(checkpoint, config=replace(checkpoint.config, layers=3))


TEXT = "The user searched for running shoes, size 42, and read 3 reviews. An ad that fits:"


def test_smollm2(smollm2_cut: Checkpoint) -> None:
    """2:4 + INT4, a dense INT4 head, 16-bit activations, a float16 cache: as it is served."""
    model = pack_model(smollm2_cut, uniform(Pattern.TWO_OF_FOUR, Values.INT4))
    tokens = Tokenizer(model).encode(TEXT)
    found = Decoder(model).sequence(64).extend(tokens, "all")
    assert relative_error(found, logits_of(hugging_face(model, 100000.0), tokens)) < 2e-3


def test_tokens_of_smollm2(smollm2_cut: Checkpoint) -> None:
    """As llama.cpp splits them: digits one by one. The numbers are those of its `llama_tokenize`."""
    config = replace(config_of(), vocabulary=smollm2_cut.config.vocabulary)
    model = replace(random_model(config_of()), tokenizer=smollm2_cut.tokenizer)
    object.__setattr__(model, "config", config)
    tokenizer = Tokenizer(model)
    tokens = [19556, 905, 17, 657, 506, 216, 34, 32, 34, 35, 28, 3247, 982, 357, 47]
    assert tokenizer.encode("Hello world! It's 2023, isn't it?") == tokens
    assert tokenizer.decode(tokens) == "Hello world! It's 2023, isn't it?"
    assert tokenizer.encode("<|im_start|>user\n")[0] == 1
