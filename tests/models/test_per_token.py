"""Per-token layers and SwiGLU: worked numbers and loops."""

import math

import numpy as np
import torch

from tests.models import reference
from triton_ads.models.per_token import PerTokenLinear, PerTokenSwiGLU
from triton_ads.models.swiglu import SwiGLU


def test_every_token_has_its_own_weights() -> None:
    layer = PerTokenLinear(2, 2, 1, bias=True)
    layer.load_state_dict(
        {"weight": torch.tensor([[[1.0], [2.0]], [[10.0], [20.0]]]), "bias": torch.tensor([[[0.5]], [[-1.0]]])}
    )
    x_HMd = torch.tensor([[[1.0, 1.0], [3.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 2.0], [1.0, 0.0]]])
    assert layer(x_HMd).squeeze(-1).tolist() == [[3.5, 3.5, 0.5], [29.0, 39.0, 9.0]]


def test_default_weights_are_glorot_uniform_of_one_tokens_matrix() -> None:
    weight = PerTokenLinear(8, 100, 50).weight.detach()
    limit = math.sqrt(6 / 150)
    assert 0.95 * limit < float(weight.abs().max()) <= limit


def test_swiglu_worked_numbers() -> None:
    """silu(2) x (2 x 3) x 5."""
    layer = SwiGLU(1, 1, 1)
    layer.load_state_dict({f"{n}.weight": torch.tensor([[v]]) for n, v in (("gate", 1.0), ("up", 3.0), ("down", 5.0))})
    expected = 2 / (1 + math.exp(-2)) * 6 * 5
    torch.testing.assert_close(layer(torch.tensor([[2.0], [0.0]])), torch.tensor([[expected], [0.0]]))


def test_swiglu_equals_the_reference_at_every_position() -> None:
    torch.manual_seed(0)
    layer, x_MTd = SwiGLU(3, 5, 4), torch.randn(2, 6, 3)
    w = reference.weights_of(layer)
    expected = [[reference.swiglu(w, x) for x in row] for row in x_MTd.double().numpy()]
    np.testing.assert_allclose(layer(x_MTd).detach().numpy(), np.array(expected), atol=1e-6)  # float32 rounding


def test_per_token_swiglu_equals_the_reference() -> None:
    torch.manual_seed(0)
    layer, x_HMD = PerTokenSwiGLU(3, 4, 5), torch.randn(3, 7, 4)
    w = reference.weights_of(layer)
    expected = np.stack([reference.per_token_swiglu(w, x_TD) for x_TD in x_HMD.double().numpy().transpose(1, 0, 2)])
    np.testing.assert_allclose(layer(x_HMD).detach().numpy(), expected.transpose(1, 0, 2), atol=1e-6)
