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
from triton_ads.recipe import Recipe, RecipeError

ATTENTION = {"sequence": "attention", "sequence_hidden": 7, "queries": 2, "heads": 2}
SETTINGS = [{}, {"y": "attentive"}, ATTENTION]


def test_the_optimised_machine_is_x_times_x_transposed_times_y() -> None:
    """X = [[1, 2], [3, 4]]: X X^T = [[5, 11], [11, 25]]; with Y = [1, -1]^T that is [-6, -14]."""
    layer = WukongLayer(2, WukongConfig(token_dim=2, rank=1, fm_tokens=1, linear_tokens=1))
    layer.y.load_state_dict({"weight": torch.tensor([[1.0, -1.0]])})
    seen: list[torch.Tensor] = []
    layer.fm_norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    layer(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    assert seen[0].tolist() == [[-6.0, -14.0]]


def test_an_attentive_machine_makes_its_y_of_the_tokens() -> None:
    """X = [[1, 2], [3, 4]] compressed by [1, 1] is [4, 6]; Y = [relu(4), -relu(4)]^T: 4 times the numbers above."""
    layer = WukongLayer(
        2, WukongConfig(token_dim=2, rank=1, fm_tokens=1, linear_tokens=1, y="attentive", y_tokens=1, y_hidden=1)
    )
    layer.y.load_state_dict(
        {
            "compress.weight": torch.tensor([[1.0, 1.0]]),
            "mlp.0.weight": torch.tensor([[1.0, 0.0]]),
            "mlp.0.bias": torch.tensor([0.0]),
            "mlp.2.weight": torch.tensor([[1.0], [-1.0]]),
            "mlp.2.bias": torch.tensor([0.0, 0.0]),
        }
    )
    seen: list[torch.Tensor] = []
    layer.fm_norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    layer(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    assert seen[0].tolist() == [[-24.0, -56.0]]


@pytest.mark.parametrize(("tokens", "read"), [(5, 0), (7, 0), (1, 0), (5, 2), (7, 3), (1, 1)])
def test_a_layer_equals_the_reference(tokens: int, read: int) -> None:
    """5 tokens go in as 5 come out; 7 need the projected residual."""
    torch.manual_seed(0)
    layer, x = WukongLayer(tokens, WukongConfig(**WUKONG), read), torch.randn(6, tokens, 6)
    found = torch.randn(6, read, 6) if read else None
    assert (layer.residual is None) == (tokens == 5)
    w = reference.weights_of(layer)
    expected = [
        reference.wukong_layer(w, row, 3, None if found is None else found[m].double().numpy())
        for m, row in enumerate(x.double().numpy())
    ]
    # FM sums of up to 10 x 6 products of normals, normed: float32 leaves some 1e-6.
    np.testing.assert_allclose(layer(x, found).detach().numpy(), np.stack(expected), atol=1e-5)


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        ({}, {}),
        ({"layers": 1}, {"scenario": None}),
        ({"layers": 3}, {"heads": BY_SCENARIOS}),
        ({}, {"sequences": []}),
        ({"y": "attentive", "y_tokens": 3, "y_hidden": 5}, {}),
        (ATTENTION, {}),
        ({**ATTENTION, "heads": 3, "queries": 1, "temperature": 0.5}, {"heads": BY_SCENARIOS}),
        ({**ATTENTION, "y": "attentive", "layers": 3, "fm_tokens": 8}, {}),
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


def changed_rows(recipe: Recipe, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """No history at all; only the second one; one event in each."""
    ids = inputs["sequence_ids"].clone()
    ids[0] = 0
    ids[1, :6] = 0  # `seen` of the tiny recipe: 3 events of 2 fields
    ids[2] = torch.tensor([3, 5, 0, 0, 0, 0, 4, 0])
    return {**inputs, "sequence_ids": ids}


def test_histories_of_padding_alone_read_zeros() -> None:
    recipe = ranker_recipe("wukong", ATTENTION)
    model, inputs = random_model(recipe), changed_rows(recipe, example_inputs(recipe, ROWS, rows=4))
    reads: list[torch.Tensor] = []
    for reader in model.readers:  # type: ignore[union-attr]
        reader.register_forward_hook(lambda _, __, read_MrD: reads.append(read_MrD))
    model(**inputs)
    for read_MrD in reads:  # 2 queries to `seen`, then 2 to `bought`
        assert not read_MrD[0].any()
        assert not read_MrD[1, :2].any()
        assert read_MrD[1, 2:].any()
        torch.testing.assert_close(read_MrD[2, 0], read_MrD[2, 1])  # one event: every query reads it alike


def test_order_counts_with_attention_only() -> None:
    for config, counts in ((ATTENTION, True), ({}, False)):
        recipe = ranker_recipe("wukong", config)
        model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=1)
        inputs["sequence_ids"] = torch.tensor([[2, 5, 3, 6, 4, 7, 2, 3]])
        swapped = {**inputs, "sequence_ids": torch.tensor([[3, 6, 2, 5, 4, 7, 2, 3]])}
        assert (float((model(**inputs) - model(**swapped)).detach().abs().max()) > 1e-4) == counts


def test_equal_events_are_read_alike() -> None:
    """Ties: with the places of all events alike, a history of one event over and over is that event."""
    recipe = ranker_recipe("wukong", ATTENTION)
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=1)
    for encoder in model.encoders:  # type: ignore[union-attr]
        torch.nn.init.zeros_(encoder.place_TD)
    often = {**inputs, "sequence_ids": torch.tensor([[2, 5, 2, 5, 2, 5, 3, 3]])}
    once = {**inputs, "sequence_ids": torch.tensor([[2, 5, 0, 0, 0, 0, 3, 0]])}
    torch.testing.assert_close(model(**often), model(**once))


def test_attention_needs_a_sequence() -> None:
    with pytest.raises(RecipeError, match=r"tiers\.wukong\.config\.sequence: attention found; the recipe has no"):
        random_model(ranker_recipe("wukong", ATTENTION, sequences=[]))


def test_heads_must_divide_a_token() -> None:
    with pytest.raises(RecipeError, match=r"tiers\.wukong\.config: .*heads: 4 does not divide token_dim 6"):
        random_model(ranker_recipe("wukong", {**ATTENTION, "heads": 4}))


@pytest.mark.parametrize("config", SETTINGS)
def test_a_row_does_not_know_its_neighbours(config: dict[str, Any]) -> None:
    recipe = ranker_recipe("wukong", config)
    model, inputs = random_model(recipe), changed_rows(recipe, example_inputs(recipe, ROWS, rows=9))
    together = model(**inputs)
    alone = torch.cat([model(**{name: x[m : m + 1] for name, x in inputs.items()}) for m in range(9)])
    torch.testing.assert_close(alone, together)


@pytest.mark.parametrize("config", SETTINGS)
def test_rows_of_padding_alone_have_finite_answers_and_no_rows_none(config: dict[str, Any]) -> None:
    recipe = ranker_recipe("wukong", config)
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=2)
    assert torch.isfinite(model(**{name: torch.zeros_like(x) for name, x in inputs.items()})).all()
    assert model(**{name: x[:0] for name, x in inputs.items()}).shape == (0, 2)


@pytest.mark.parametrize("config", SETTINGS)
def test_every_parameter_learns(config: dict[str, Any]) -> None:
    recipe = ranker_recipe("wukong", {"layers": 2, "fm_tokens": 4, **config})
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=60)
    model(**inputs).square().sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []
