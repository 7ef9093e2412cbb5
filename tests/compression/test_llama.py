"""The forward of calibration and training computes what a plain float64 reference and Hugging Face compute."""

import numpy as np
import pytest
import torch

from tests.support.random_llama import EXACT, Reference, config_of, random_checkpoint, random_model, relative_error
from triton_ads.compression.checkpoint import Checkpoint, CheckpointError
from triton_ads.compression.llama import build_llama, layer_of, linear_layers, next_token_loss, with_weights
from triton_ads.compression.packing import dequantised

IDS = [3, 50, 7, 7, 99, 0, 12, 64, 1]


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_the_reference_s(tied: bool) -> None:
    config = config_of(tied=tied)
    packed = random_model(config, lambda name: EXACT)
    model = build_llama(random_checkpoint(config))
    model.model.embed_tokens.weight.data = model.model.embed_tokens.weight.bfloat16().float()
    weights = {name: dequantised(matrix) for name, matrix in packed.matrices.items()}
    with with_weights(model, weights), torch.no_grad():
        found_TV = model(torch.tensor([IDS]))[0].numpy()
    # Float32 sums against float64: some 1e-6 a layer.
    assert relative_error(found_TV, Reference(packed).logits(IDS)) < 1e-5


def test_logits_are_hugging_face_s() -> None:
    transformers = pytest.importorskip("transformers")
    checkpoint = random_checkpoint(config_of())
    model, config = build_llama(checkpoint), checkpoint.config
    other = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=config.vocabulary, hidden_size=config.hidden, intermediate_size=config.intermediate,
            num_hidden_layers=config.layers, num_attention_heads=config.heads, num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim, rms_norm_eps=config.epsilon, tie_word_embeddings=False,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        )
    )  # fmt: skip
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        wanted_STV = other(torch.tensor([IDS, IDS[::-1]])).logits
        torch.testing.assert_close(model(torch.tensor([IDS, IDS[::-1]])), wanted_STV, rtol=1e-4, atol=1e-4)


def test_a_forward_in_two_parts_is_the_whole() -> None:
    model = build_llama(random_checkpoint(config_of(layers=3)))
    ids = torch.tensor([IDS])
    with torch.no_grad():
        x_STD = model.between(model.model.embed_tokens(ids), 0, 2)
        torch.testing.assert_close(model.from_layer(x_STD, 2), model(ids), rtol=0, atol=0)


def test_the_head_of_a_tied_model_is_compressed_alone() -> None:
    model = build_llama(random_checkpoint(config_of(tied=True)))
    before = model.model.embed_tokens.weight.clone()
    model.lm_head.weight.data.zero_()
    torch.testing.assert_close(model.model.embed_tokens.weight, before, rtol=0, atol=0)


def test_weights_come_back() -> None:
    model = build_llama(random_checkpoint(config_of()))
    layers = dict(linear_layers(model))
    assert list(layers) == list(model.config.linear_layers())
    name = "model.layers.1.mlp.up_proj"
    before = layers[name].weight.clone()
    with pytest.raises(KeyboardInterrupt), with_weights(model, {name: np.zeros((80, 48), np.float32)}):
        assert not layers[name].weight.any()
        raise KeyboardInterrupt
    torch.testing.assert_close(layers[name].weight, before, rtol=0, atol=0)


def test_layers_are_counted() -> None:
    assert layer_of("model.layers.12.mlp.up_proj") == 12
    assert layer_of("lm_head") > 10**6


def test_loss_is_the_cross_entropy_of_what_comes_next() -> None:
    logits = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [9.0, 9.0]]])
    # log 2 for token 1 after the first, log(1 + e^-2) for token 0 after the second; nothing follows the third.
    wanted = (np.log(2) + np.log1p(np.exp(-2))) / 2
    assert next_token_loss(logits, torch.tensor([[0, 1, 0]])).item() == pytest.approx(wanted, rel=1e-6)


def test_a_checkpoint_that_does_not_fit_is_refused() -> None:
    good = random_checkpoint(config_of())
    bad = Checkpoint(good.config, good.frequencies, lambda name: good.tensor(name)[:1], good.tokenizer)
    with pytest.raises(CheckpointError, match="the configuration asks for"):
        build_llama(bad)
