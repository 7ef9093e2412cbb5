"""Mixing and reverting: worked numbers, the identity, the whole layer against loops."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models import reference
from triton_ads.models.token_mixer import TokenMixer, mix


def test_worked_numbers() -> None:
    """Two tokens of four floats: token 0 gets the first halves, token 1 the second."""
    x_TMD = torch.tensor([[[1, 2, 3, 4]], [[5, 6, 7, 8]]])
    assert mix(x_TMD).tolist() == [[[1, 2, 5, 6]], [[3, 4, 7, 8]]]


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4))
def test_mixing_twice_is_the_identity(tokens: int, rows: int, k: int) -> None:
    x_TMD = torch.arange(tokens * rows * tokens * k).reshape(tokens, rows, tokens * k)
    assert torch.equal(mix(mix(x_TMD)), x_TMD)
    for m in range(rows):
        np.testing.assert_array_equal(mix(x_TMD)[:, m].numpy(), reference.mix(x_TMD[:, m].double().numpy()))


def test_the_layer_equals_the_reference() -> None:
    torch.manual_seed(0)
    layer, x_TMD = TokenMixer(3, 6, 5), torch.randn(3, 7, 6)
    with torch.no_grad():
        layer.mixed_norm.weight.copy_(torch.rand(6) + 0.5)
        layer.reverted_norm.weight.copy_(torch.rand(6) + 0.5)
    w = reference.weights_of(layer)
    expected = np.stack([reference.token_mixer(w, x_TD) for x_TD in x_TMD.double().numpy().transpose(1, 0, 2)])
    np.testing.assert_allclose(layer(x_TMD).detach().numpy(), expected.transpose(1, 0, 2), atol=3e-6)


def test_the_residual_stays_with_its_token() -> None:
    """With both networks silent the layer is the identity: no token has moved."""
    layer, x_TMD = TokenMixer(3, 6, 5), torch.randn(3, 7, 6)
    for ffn in (layer.mixed_ffn, layer.reverted_ffn):
        torch.nn.init.zeros_(ffn.down.weight)
    assert torch.equal(layer(x_TMD), x_TMD)


def test_every_token_sees_every_other() -> None:
    torch.manual_seed(0)
    layer, x_TMD = TokenMixer(3, 6, 5), torch.randn(3, 1, 6, requires_grad=True)
    for token in range(3):
        (gradient,) = torch.autograd.grad(layer(x_TMD)[token].sum(), x_TMD)
        assert all(float(gradient[other].abs().sum()) > 1e-4 for other in range(3))
