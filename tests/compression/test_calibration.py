"""Calibration against plain sums, finite differences and the loss itself."""

import numpy as np
import pytest
import torch

from tests.support.random_llama import config_of, random_checkpoint
from triton_ads.compression.calibration import Calibration, calibrate
from triton_ads.compression.llama import Llama, build_llama, linear_layers, next_token_loss, with_weights

IDS_ST = np.random.default_rng(0).integers(0, 101, (3, 12))


@pytest.fixture(scope="module")
def model() -> Llama:
    return build_llama(random_checkpoint(config_of()))


@pytest.fixture(scope="module")
def calibration(model: Llama) -> dict[str, Calibration]:
    return dict(calibrate(model, IDS_ST))


def test_every_matrix_is_there_and_the_model_is_as_before(model: Llama, calibration: dict[str, Calibration]) -> None:
    assert list(calibration) == list(model.config.linear_layers())
    for name, layer in linear_layers(model):
        assert not layer.weight.requires_grad and layer.weight.grad is None
        assert not layer._forward_hooks
        assert calibration[name].gradient_NK.shape == layer.weight.shape
        assert calibration[name].row_share_N.sum() == pytest.approx(1, rel=1e-5)


def plainly(model: Llama, name: str) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Inputs [T, K], gradients of the summed loss by outputs [T, N] and of the mean loss by weights, by sequence."""
    layer = dict(linear_layers(model))[name]
    inputs, outputs, gradients = [], [], []
    for ids_T in torch.from_numpy(IDS_ST):
        seen: dict[str, torch.Tensor] = {}

        def hook(layer: object, x: tuple[torch.Tensor], y: torch.Tensor, seen: dict[str, torch.Tensor] = seen) -> None:
            seen["x"], seen["y"] = x[0].detach(), y
            y.retain_grad()

        handle = layer.register_forward_hook(hook)
        layer.weight.requires_grad_(True)
        next_token_loss(model(ids_T[None]), ids_T[None]).backward()
        handle.remove()
        inputs.append(seen["x"][0].double().numpy())
        outputs.append(seen["y"].grad[0].double().numpy() * len(ids_T))
        gradients.append(layer.weight.grad.double().numpy())
        layer.weight.requires_grad_(False)
        layer.weight.grad = None
    return inputs, outputs, gradients


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.k_proj", "model.layers.1.mlp.down_proj", "lm_head"])
def test_against_plain_sums(model: Llama, calibration: dict[str, Calibration], name: str) -> None:
    inputs, outputs, gradients = plainly(model, name)
    x_TK, g_TN = np.concatenate(inputs), np.concatenate(outputs)
    found = calibration[name]
    np.testing.assert_allclose(found.norm_K, np.sqrt((x_TK**2).sum(0)), rtol=1e-4)
    np.testing.assert_allclose(found.gradient_NK, np.sqrt(np.mean(np.square(gradients), axis=0)), rtol=1e-3, atol=1e-6)
    energy_T = (g_TN**2).sum(1)
    np.testing.assert_allclose(found.row_share_N, (g_TN**2).sum(0) / energy_T.sum(), rtol=1e-3, atol=1e-7)
    wanted_KK = (x_TK * energy_T[:, None]).T @ x_TK / len(x_TK)
    np.testing.assert_allclose(found.hessian_KK, wanted_KK, rtol=1e-3, atol=1e-4 * np.abs(wanted_KK).max())


def test_the_gradient_is_that_of_the_loss(model: Llama) -> None:
    """Central differences of the loss of one sequence. Their error goes with the square of the step, the float32
    loss' with its inverse: 1e-2 leaves about 1e-3."""
    name, step = "model.layers.1.self_attn.o_proj", 1e-2
    one = calibrate(model, IDS_ST[:1])[name].gradient_NK
    weight_NK = dict(linear_layers(model))[name].weight.numpy()
    ids = torch.from_numpy(IDS_ST[:1])
    for row, column in ((0, 0), (5, 17), (47, 47)):
        losses = []
        for sign in (1, -1):
            moved_NK = weight_NK.copy()
            moved_NK[row, column] += sign * step
            with with_weights(model, {name: moved_NK}), torch.no_grad():
                losses.append(next_token_loss(model(ids), ids).item())
        assert one[row, column] == pytest.approx(abs(losses[0] - losses[1]) / (2 * step), rel=0.02, abs=1e-4)


def test_estimated_loss_by_hand() -> None:
    one = Calibration(
        norm_K=np.ones(2, np.float32),
        gradient_NK=np.ones((2, 2), np.float32),
        hessian_KK=np.array([[2.0, 1.0], [1.0, 4.0]], np.float32),
        row_share_N=np.array([0.75, 0.25], np.float32),
    )
    # e H e^T: (1, 0) -> 2; (1, -1) -> 2 - 2 + 4 = 4
    found = one.loss_increase_N(np.array([[1.0, 0.0], [1.0, -1.0]], np.float32))
    np.testing.assert_allclose(found, [0.5 * 0.75 * 2, 0.5 * 0.25 * 4])
