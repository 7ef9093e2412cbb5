"""The whole ranker against loops, and what must not change its answers."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.models import reference
from tests.models.support import BY_SCENARIOS, HYFORMER, ROWS, random_model, ranker_recipe
from triton_ads.models import HyFormer, HyFormerConfig
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe, RecipeError

NO_SEQUENCES: dict[str, Any] = {"sequences": []}


def reference_logits(recipe: Recipe, model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> np.ndarray:
    weights = reference.weights_of(model)
    (tier,) = recipe.tiers.values()
    embedding = reference.EmbeddingReference(recipe, ROWS, reference.below(weights, "embedding"))
    rows = [
        reference.hyformer(embedding, weights, HyFormerConfig(**tier.config), row) for row in reference.rows_of(inputs)
    ]
    if recipe.heads.by == "labels":
        return np.stack([heads for heads, _ in rows])
    # heads.scenarios 3, 1, 2 lie in rows 4, 2, 3 of the vocabulary; PAD and OOV take the default, scenario 1.
    first = {0: 2, 1: 2, 2: 2, 3: 4, 4: 0}
    return np.stack([heads[first[row] : first[row] + 2] for heads, row in rows])


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        ({}, {}),
        ({"layers": 2}, {}),
        ({"layers": 3, "temperature": 0.7, "own_experts": 2, "shared_experts": 3}, {}),
        ({}, {"heads": BY_SCENARIOS}),
        ({}, {"scenario": None}),
        ({"tokens": 5}, NO_SEQUENCES),
        ({"tokens": 1, "token_dim": 9}, {}),
    ],
)
def test_equals_the_reference(config: dict[str, Any], changes: dict[str, Any]) -> None:
    recipe = ranker_recipe("hyformer", config, **changes)
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=30)
    expected = reference_logits(recipe, model, inputs)
    found = model(**inputs).detach().numpy()
    assert found.std() > 0.1  # the rows differ: an error would show
    np.testing.assert_allclose(found, expected, atol=2e-4, rtol=1e-4)  # logits of size 1 to 100, in float32


def tiny() -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    recipe = ranker_recipe()
    return random_model(recipe), example_inputs(recipe, ROWS, rows=9)


def test_a_row_does_not_know_its_neighbours() -> None:
    model, inputs = tiny()
    together = model(**inputs)
    alone = torch.cat([model(**{name: x[m : m + 1] for name, x in inputs.items()}) for m in range(9)])
    torch.testing.assert_close(alone, together)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(**{name: x[order] for name, x in inputs.items()}), together[order])


def test_no_history_adds_exactly_nothing() -> None:
    """With empty histories the decoded queries are zero: the encoders do not matter, whatever their weights."""
    model, inputs = tiny()
    assert isinstance(model, HyFormer)
    inputs["sequence_ids"] = torch.zeros_like(inputs["sequence_ids"])
    before = model(**inputs)
    assert torch.isfinite(before).all()
    with torch.no_grad():
        for parameter in model.encoders.parameters():
            parameter.add_(1.0)
    assert torch.equal(model(**inputs), before)


def test_the_length_of_the_padding_does_not_matter() -> None:
    """Two events answer alike in a history of 2 and in one of 5, whose table and weights are the same."""
    answers = []
    for length in (2, 5):
        field = {"name": "item_id", "table": "item"}
        recipe = ranker_recipe(
            "hyformer", {"tokens": 4}, sequences=[{"name": "h", "length": length, "fields": [field]}]
        )
        inputs = example_inputs(recipe, ROWS, rows=3)
        inputs["sequence_ids"] = torch.zeros(3, length, dtype=torch.int64)
        inputs["sequence_ids"][:, :2] = torch.tensor([[2, 3], [4, 0], [0, 0]])
        answers.append(random_model(recipe)(**inputs))
    torch.testing.assert_close(*answers)


def test_one_event_matters() -> None:
    model, inputs = tiny()
    inputs["sequence_ids"] = torch.zeros_like(inputs["sequence_ids"])
    empty = model(**inputs)
    inputs["sequence_ids"][0, 0] = 4
    one = model(**inputs)
    assert torch.equal(one[1:], empty[1:])
    assert float((one[0] - empty[0]).detach().abs().max()) > 1e-3


def test_the_order_of_a_history_does_not_matter() -> None:
    """Attention and mean read a set: recency enters by the fields of an event (time gap), not by its place."""
    model, inputs = tiny()
    events = inputs["sequence_ids"].clone()
    events[:, :6] = torch.tensor([2, 3, 4, 5, 6, 7])
    swapped = events.clone()
    swapped[:, :6] = torch.tensor([6, 7, 2, 3, 4, 5])
    torch.testing.assert_close(
        model(**{**inputs, "sequence_ids": events}), model(**{**inputs, "sequence_ids": swapped})
    )


@pytest.mark.parametrize("unknown", [-1, 2**63 - 1])
def test_unknown_ids_are_oov(unknown: int) -> None:
    model, inputs = tiny()
    for name in ("user_ids", "item_ids", "sequence_ids"):
        oov = {**inputs, name: torch.full_like(inputs[name], 1)}
        other = {**inputs, name: torch.full_like(inputs[name], unknown)}
        assert torch.equal(model(**oov), model(**other))


def test_a_row_of_padding_alone_has_a_finite_answer() -> None:
    model, inputs = tiny()
    assert torch.isfinite(model(**{name: torch.zeros_like(x) for name, x in inputs.items()})).all()


def test_no_rows_have_no_answers() -> None:
    model, inputs = tiny()
    assert model(**{name: x[:0] for name, x in inputs.items()}).shape == (0, 2)


def test_every_parameter_learns() -> None:
    recipe = ranker_recipe("hyformer", {"layers": 2})
    model, inputs = random_model(recipe), example_inputs(recipe, ROWS, rows=60)
    model(**inputs).square().sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == []


def test_tokens_that_do_not_divide_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"tiers\.hyformer\.config\.token_dim: 12 found; a multiple of .* 3 \+ 2 = 5"):
        random_model(ranker_recipe("hyformer", {**HYFORMER, "token_dim": 12}))
