"""Wukong: worked numbers of the factorization machine, the whole model against loops."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.models import reference
from tests.models.support import BY_SCENARIOS, ROWS, WUKONG, random_model, ranker_recipe
from triton_ads.models import WukongConfig
from triton_ads.models.example import example_inputs
from triton_ads.models.wukong import WukongLayer


def test_the_optimised_machine_is_x_times_x_transposed_times_y() -> None:
    """X = [[1, 2], [3, 4]]: X X^T = [[5, 11], [11, 25]]; with Y = [1, -1]^T that is [-6, -14]."""
    layer = WukongLayer(2, WukongConfig(token_dim=2, rank=1, fm_tokens=1, linear_tokens=1))
    layer.y.load_state_dict({"weight": torch.tensor([[1.0, -1.0]])})
    seen: list[torch.Tensor] = []
    layer.fm_norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    layer(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    assert seen[0].tolist() == [[-6.0, -14.0]]


@pytest.mark.parametrize("tokens", [5, 7])
def test_a_layer_equals_the_reference(tokens: int) -> None:
    """5 tokens go in as 5 come out; 7 need the projected residual."""
    torch.manual_seed(0)
    layer, x = WukongLayer(tokens, WukongConfig(**WUKONG)), torch.randn(6, tokens, 6)
    assert (layer.residual is None) == (tokens == 5)
    w = reference.weights_of(layer)
    expected = np.stack([reference.wukong_layer(w, row, fm_tokens=3) for row in x.double().numpy()])
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        ({}, {}),
        ({"layers": 1}, {"scenario": None}),
        ({"layers": 3}, {"heads": BY_SCENARIOS}),
        ({}, {"sequences": []}),
    ],
)
def test_equals_the_reference(config: dict[str, Any], changes: dict[str, Any]) -> None:
    recipe = ranker_recipe("wukong", config, **changes)
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=30)
    w = reference.weights_of(model)
    embedding = reference.EmbeddingReference(recipe, ROWS, reference.below(w, "embedding"))
    settings = WukongConfig(**recipe.tiers["wukong"].config)
    expected = []
    for row in reference.rows_of(inputs):
        heads, scenario = reference.wukong(embedding, w, settings, row)
        first = {0: 2, 1: 2, 2: 2, 3: 4, 4: 0}[scenario] if len(heads) > 2 else 0  # as in test_hyformer
        expected.append(heads[first : first + 2])
    found = model(**inputs).detach().numpy()
    assert found.std() > 0.1
    np.testing.assert_allclose(found, np.stack(expected), atol=2e-5, rtol=1e-4)


def test_a_row_does_not_know_its_neighbours() -> None:
    recipe = ranker_recipe("wukong")
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=9)
    together = model(**inputs)
    alone = torch.cat([model(**{name: x[m : m + 1] for name, x in inputs.items()}) for m in range(9)])
    torch.testing.assert_close(alone, together)


def test_rows_of_padding_alone_have_finite_answers_and_no_rows_none() -> None:
    recipe = ranker_recipe("wukong")
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=2)
    assert torch.isfinite(model(**{name: torch.zeros_like(x) for name, x in inputs.items()})).all()
    assert model(**{name: x[:0] for name, x in inputs.items()}).shape == (0, 2)


def test_every_parameter_learns() -> None:
    recipe = ranker_recipe("wukong", {"layers": 2, "fm_tokens": 4})
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=60)
    model(**inputs).square().sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []
