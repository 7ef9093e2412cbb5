"""Perplexity and agreement against plain counting."""

import numpy as np
import pytest
import torch

from tests.support.random_llama import config_of, random_checkpoint
from triton_ads.compression.llama import Llama, build_llama, linear_layers, with_weights
from triton_ads.compression.quality import agreement, greedy_continuations, perplexity

RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def model() -> Llama:
    return build_llama(random_checkpoint(config_of()))


def test_perplexity_is_the_inverse_geometric_mean_of_probabilities(model: Llama) -> None:
    ids_ST = RNG.integers(0, 101, (2, 8))
    with torch.no_grad():
        logs_STV = model(torch.from_numpy(ids_ST)).double().log_softmax(-1).numpy()
    logs = [logs_STV[s, t, ids_ST[s, t + 1]] for s in range(2) for t in range(7)]
    assert perplexity(model, ids_ST) == pytest.approx(np.exp(-np.mean(logs)), rel=1e-4)


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary(model: Llama) -> None:
    with with_weights(model, {"lm_head": np.zeros((101, 48), np.float32)}):
        assert perplexity(model, RNG.integers(0, 101, (1, 9))) == pytest.approx(101, rel=1e-5)


def test_continuations_are_one_most_likely_token_after_the_other(model: Llama) -> None:
    prompts_ST = RNG.integers(0, 101, (3, 5))
    continued_ST = greedy_continuations(model, prompts_ST, 4)
    np.testing.assert_array_equal(continued_ST[:, :5], prompts_ST)
    for row in continued_ST:
        for end in range(5, 9):
            with torch.no_grad():
                assert model(torch.from_numpy(row[None, :end]))[0, -1].argmax() == row[end]


def test_a_model_agrees_with_itself(model: Llama) -> None:
    continued_ST = greedy_continuations(model, RNG.integers(0, 101, (3, 5)), 4)
    found = agreement(model, continued_ST, 5)
    assert (found.tokens, found.prefix) == (1.0, 4.0)


def test_agreement_is_what_two_continuations_show(model: Llama) -> None:
    prompts_ST = RNG.integers(0, 101, (6, 5))
    wanted_ST = greedy_continuations(model, prompts_ST, 6)
    rng = np.random.default_rng(4)
    other = {
        name: layer.weight.numpy() + 0.01 * rng.standard_normal(layer.weight.shape).astype(np.float32)
        for name, layer in linear_layers(model)
    }
    with with_weights(model, other):
        found = agreement(model, wanted_ST, 5)
        own_ST = greedy_continuations(model, prompts_ST, 6)
    same_ST = own_ST[:, 5:] == wanted_ST[:, 5:]
    prefixes = [next((at for at, same in enumerate(row) if not same), 6) for row in same_ST]
    assert 0 < np.mean(prefixes) < 6  # else the test shows nothing
    assert found.prefix == pytest.approx(np.mean(prefixes))
    assert found.tokens >= found.prefix / 6
