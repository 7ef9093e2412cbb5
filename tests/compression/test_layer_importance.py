"""Measured layer importance against whole forward passes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.support.random_llama import config_of, random_checkpoint
from triton_ads.compression.calibration import calibrate
from triton_ads.compression.layer_importance import loss_increases
from triton_ads.compression.llama import build_llama, layer_of, linear_layers, next_token_loss, with_weights
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import largest_of_four

IDS_ST = np.random.default_rng(1).integers(0, 101, (4, 16))


def test_increases_of_a_layer_are_what_a_whole_forward_finds() -> None:
    model = build_llama(random_checkpoint(config_of(layers=3)))
    calibration = calibrate(model, IDS_ST)
    weights = {name: layer.weight.numpy().copy() for name, layer in linear_layers(model)}
    both = (Pattern.TWO_OF_FOUR, Pattern.ONE_OF_FOUR)
    choices = {name: (Pattern.DENSE,) if name == "lm_head" else both for name in weights}

    def pruned(name: str, pattern: Pattern) -> NDArray[np.float32]:
        if not pattern.sparse:
            return weights[name]
        return np.where(largest_of_four(np.abs(weights[name]), pattern), weights[name], np.float32(0))

    found = loss_increases(model, choices, pruned, calibration, IDS_ST)
    ids = torch.from_numpy(IDS_ST)

    def loss(sparser: int | None) -> float:
        with (
            with_weights(
                model,
                {
                    name: pruned(name, patterns[-1] if layer_of(name) == sparser else patterns[0])
                    for name, patterns in choices.items()
                },
            ),
            torch.no_grad(),
        ):
            return next_token_loss(model(ids), ids).item()

    for layer in range(3):
        names = [name for name in choices if layer_of(name) == layer]
        measured = loss(layer) - loss(None)
        assert sum(found[name][1] for name in names) == pytest.approx(max(measured, 0), rel=1e-3, abs=1e-5)
        estimates = [
            calibration[name].loss_increase_N(pruned(name, both[1]) - pruned(name, both[0])).sum() for name in names
        ]
        if measured > 0:
            shares = [found[name][1] / measured for name in names]
            np.testing.assert_allclose(shares, np.array(estimates) / sum(estimates), rtol=1e-3)
    assert found["lm_head"] == [0.0]
    for name, layer in linear_layers(model):
        np.testing.assert_array_equal(layer.weight.numpy(), weights[name])
