"""PLE: worked numbers, the formula, and which expert serves which task."""

import math

import numpy as np
import pytest
import torch

from tests.models import reference
from triton_ads.models.ple import PLE


def test_worked_numbers() -> None:
    """Task 0 mixes its expert (x) and the shared one (10 x) as 3 : 1; task 1 (relu(-x) = 0) and 10 x as 1 : 1."""
    ple = PLE(1, tasks=2, own_experts=1, shared_experts=1, expert_width=1)
    for parameter in ple.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        for linear, weight in ((ple.own[0], 1.0), (ple.own[1], -1.0), (ple.shared[0], 10.0)):
            linear.weight.fill_(weight)
        ple.gates[0].bias.copy_(torch.tensor([math.log(3), 0.0]))
    task_0, task_1 = ple(torch.tensor([[2.0]]))
    torch.testing.assert_close(task_0, torch.tensor([[0.75 * 2 + 0.25 * 20]]))
    torch.testing.assert_close(task_1, torch.tensor([[0.5 * 0 + 0.5 * 20]]))


@pytest.mark.parametrize(("tasks", "own", "shared"), [(2, 1, 1), (1, 2, 3), (6, 1, 2), (2, 0, 2)])
def test_equals_the_reference(tasks: int, own: int, shared: int) -> None:
    torch.manual_seed(0)
    ple, x = PLE(5, tasks, own, shared, 4), torch.randn(7, 5)
    w = reference.weights_of(ple)
    expected = [reference.ple(w, row, tasks, own, shared) for row in x.double().numpy()]
    found = torch.stack(ple(x), dim=1).detach().numpy()
    np.testing.assert_allclose(found, np.array(expected), atol=1e-6)


def test_the_gates_of_a_task_sum_to_one_over_its_own_and_the_shared_experts() -> None:
    torch.manual_seed(0)
    ple, x = PLE(5, tasks=2, own_experts=2, shared_experts=3, expert_width=4), torch.randn(7, 5)
    for task in range(2):
        gate = ple.gate(task, x)
        assert gate.shape == (7, 5)
        torch.testing.assert_close(gate.sum(dim=1), torch.ones(7))


def test_a_task_trains_its_own_and_the_shared_experts_and_no_other() -> None:
    torch.manual_seed(0)
    ple = PLE(5, tasks=2, own_experts=1, shared_experts=1, expert_width=4)
    ple(torch.randn(7, 5))[0].sum().backward()
    trained = {name for name, p in ple.named_parameters() if p.grad is not None and float(p.grad.abs().sum()) > 0}
    experts_and_gates = {name.removesuffix(".weight") for name in trained if name.endswith(".weight")}
    assert experts_and_gates == {"own.0", "shared.0", "gates.0"}


def test_two_labels_make_the_sources_three_experts() -> None:
    ple = PLE(5, tasks=2, own_experts=1, shared_experts=1, expert_width=4)
    assert len(ple.own) + len(ple.shared) == 3
