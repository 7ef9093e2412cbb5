"""What the models cost: counted by hand for small ones, and the default recipe's bounds."""

from pathlib import Path

import pytest

from tests.models.support import ranker_recipe
from triton_ads.models.cost import Cost, model_cost
from triton_ads.recipe import load_recipe

RECIPE = load_recipe(Path(__file__).parents[2] / "build/recipes/movielens.yaml")


def test_counted_by_hand() -> None:
    """2 per multiplication with its addition; sizes of tests/models/support.py."""
    cost = model_cost(ranker_recipe(), "hyformer")
    assert cost["epnet"] == Cost(2 * ((4 + 37) * 6 + 6 * 37), (4 + 37 + 1) * 6 + 7 * 37)
    assert cost["tokenizer"] == Cost(2 * 3 * 13 * 10, 3 * (13 + 1) * 10)
    events = 3 * (12 * 7 * 2 + 7 * 10) + 2 * (8 * 7 * 2 + 7 * 10)
    assert cost["encoders"].flops == 2 * events
    assert cost["generators"] == Cost(2 * 2 * (40 * 9 + 9 * 10), 2 * (41 * 9 + 10 * 10))
    assert cost["attention"] == Cost(2 * (3 + 2) * 10 * 2, 0)
    assert cost["mixers"] == Cost(2 * 2 * 5 * 3 * 10 * 11, 2 * (5 * 3 * 10 * 11 + 10))
    assert cost["total"].flops == sum(part.flops for name, part in cost.items() if name != "total")


def test_the_default_tiers_cost_what_they_should() -> None:
    assert model_cost(RECIPE, "high")["total"].flops / 1e6 == pytest.approx(36.04, abs=0.01)
    assert model_cost(RECIPE, "standard")["total"].flops / 1e6 < 3
