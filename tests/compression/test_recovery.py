"""Recovery training: closer to the uncompressed model, under the same masks, on the same grids."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.support.random_llama import config_of, random_checkpoint
from triton_ads.compression.calibration import calibrate
from triton_ads.compression.compressed_matrix import CompressedMatrix, PrunedMatrix, Rounded, pruned_matrix
from triton_ads.compression.llama import Llama, build_llama, linear_layers, with_weights
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.compression.quantised import QuantisedMatrix, largest_of_four, round_to_nearest
from triton_ads.compression.recipe import RecoveryPart
from triton_ads.compression.recovery import recover

IDS_ST = np.random.default_rng(2).integers(0, 101, (64, 16))
PART = RecoveryPart(steps=30, sequences=4, tokens=16, learning_rate=0.05)


def divergence(model: Llama, matrices: dict[str, CompressedMatrix]) -> float:
    ids = torch.from_numpy(IDS_ST)
    with torch.no_grad():
        wanted = model(ids).log_softmax(-1)
        with with_weights(model, {name: one.dequantised() for name, one in matrices.items()}):
            found = model(ids).log_softmax(-1)
    return functional.kl_div(found, wanted, log_target=True, reduction="sum").item() / ids.numel()


@pytest.fixture(scope="module")
def model() -> Llama:
    model = build_llama(random_checkpoint(config_of(hidden=64, intermediate=100)))
    model.lm_head.weight.data *= 0.05  # the shared checkpoint is sure of every token: nothing would be left to learn
    return model


def compressed(model: Llama, values: Values) -> dict[str, Rounded]:
    rounded = {}
    for name, layer in linear_layers(model):
        weight_NK = layer.weight.numpy()
        pattern = Pattern.DENSE if name == "lm_head" else Pattern.TWO_OF_FOUR
        keep_NK = largest_of_four(np.abs(weight_NK), pattern)
        pruned_NK = weight_NK * keep_NK
        matrix: CompressedMatrix = pruned_matrix(pruned_NK, pattern)
        if values is Values.INT4:
            matrix = round_to_nearest(weight_NK, pattern, 64, keep_NK)
        rounded[name] = Rounded(matrix, keep_NK, pruned_NK)
    return rounded


@pytest.mark.parametrize("values", list(Values))
def test_closer_under_the_same_masks_and_grids(model: Llama, values: Values) -> None:
    rounded = compressed(model, values)
    matrices = {name: one.matrix for name, one in rounded.items()}
    before = {name: layer.weight.clone() for name, layer in linear_layers(model)}
    trained = recover(model, rounded, IDS_ST, PART)
    assert divergence(model, trained) < 0.9 * divergence(model, matrices)
    assert trained["lm_head"] is matrices["lm_head"]
    for name, one in trained.items():
        other = matrices[name]
        assert not one.dequantised()[~rounded[name].keep_NK].any()
        if isinstance(one, QuantisedMatrix) and isinstance(other, QuantisedMatrix):
            np.testing.assert_array_equal(one.scales_NB, other.scales_NB)
            np.testing.assert_array_equal(one.group_size_N, other.group_size_N)
        else:
            assert isinstance(one, PrunedMatrix)
            np.testing.assert_array_equal(one.weight_NK, pruned_matrix(one.weight_NK, one.pattern).weight_NK)
    for name, layer in linear_layers(model):
        torch.testing.assert_close(layer.weight, before[name], rtol=0, atol=0)


def test_a_short_training_changes_codes(model: Llama) -> None:
    rounded = compressed(model, Values.INT4)
    trained = recover(model, rounded, IDS_ST, RecoveryPart(steps=3, sequences=2, tokens=16))
    changed = [(trained[name].dequantised() != one.matrix.dequantised()).any() for name, one in rounded.items()]
    assert sum(changed) == len(rounded) - 1  # the head is not trained


def test_training_that_does_not_move_changes_nothing(model: Llama) -> None:
    """It starts where rounding started: the same codes, none of them near an edge by mistake."""
    rounded = compressed(model, Values.INT4)
    still = RecoveryPart(steps=1, sequences=1, tokens=16, learning_rate=1e-9)
    for name, one in recover(model, rounded, IDS_ST, still).items():
        np.testing.assert_array_equal(one.dequantised(), rounded[name].matrix.dequantised())


def test_the_same_twice(model: Llama) -> None:
    calibrate(model, IDS_ST[:1])  # leaves nothing behind that training would meet
    rounded = compressed(model, Values.INT4)
    part = PART.model_copy(update={"steps": 5})
    first, second = (recover(model, rounded, IDS_ST, part) for _ in range(2))
    for name, one in first.items():
        np.testing.assert_array_equal(one.dequantised(), second[name].dequantised())


def test_text_that_is_short_is_read_again(model: Llama) -> None:
    rounded = compressed(model, Values.INT4)
    trained = recover(model, rounded, IDS_ST[:3], PART.model_copy(update={"steps": 2}))
    assert list(trained) == list(rounded)
