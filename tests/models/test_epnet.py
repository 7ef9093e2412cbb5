"""EPNet: worked numbers, the formula, and where gradients go."""

import math

import numpy as np
import torch

from tests.models import reference
from triton_ads.models.epnet import EPNet


def test_worked_numbers() -> None:
    """hidden = relu(1 x 2 + 1 x 3 - 1 x 1 - 2) = 2; gates 2 sigmoid(0), 2 sigmoid(2 - 2 + log 3) = 1.5."""
    epnet = EPNet(1, 2, 1)
    epnet.load_state_dict(
        {
            "hidden.weight": torch.tensor([[1.0, 1.0, -1.0]]),
            "hidden.bias": torch.tensor([-2.0]),
            "gate.weight": torch.tensor([[0.0], [1.0]]),
            "gate.bias": torch.tensor([0.0, math.log(3) - 2]),
        }
    )
    torch.testing.assert_close(epnet(torch.tensor([[3.0, 1.0]]), torch.tensor([[2.0]])), torch.tensor([[3.0, 1.5]]))


def test_equals_the_reference() -> None:
    torch.manual_seed(0)
    epnet, x, domain = EPNet(3, 5, 4), torch.randn(6, 5), torch.randn(6, 3)
    w = reference.weights_of(epnet)
    expected = [reference.epnet(w, e, g) for e, g in zip(x.double().numpy(), domain.double().numpy(), strict=True)]
    np.testing.assert_allclose(epnet(x, domain).detach().numpy(), np.stack(expected), atol=1e-6)


def test_a_gate_of_zeros_changes_nothing() -> None:
    epnet, x = EPNet(3, 5, 4), torch.randn(6, 5)
    torch.nn.init.zeros_(epnet.gate.weight)
    torch.nn.init.zeros_(epnet.gate.bias)
    assert torch.equal(epnet(x, torch.randn(6, 3)), x)


def test_the_gate_gives_no_gradient_to_what_it_gates() -> None:
    """d(gate x E)/dE is the gate alone: what flows through the gate's own input is stopped."""
    torch.manual_seed(0)
    epnet = EPNet(3, 5, 4)
    x, domain = torch.randn(6, 5, requires_grad=True), torch.randn(6, 3, requires_grad=True)
    y = epnet(x, domain)
    y.sum().backward()
    assert x.grad is not None and domain.grad is not None
    torch.testing.assert_close(x.grad, (y / x).detach())
    assert float(domain.grad.abs().sum()) > 0.01


def test_the_gate_still_depends_on_what_it_gates() -> None:
    torch.manual_seed(0)
    epnet, x, domain = EPNet(3, 5, 4), torch.ones(1, 5), torch.ones(1, 3)
    gates = [epnet(scale * x, domain) / scale for scale in (1.0, -2.0)]
    assert not torch.allclose(*gates)
