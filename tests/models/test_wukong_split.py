"""Wukong that reads histories, split: the encoded histories are the user's, whatever the queries hold."""

from pathlib import Path

import pytest
import torch

from tests.models.support import ROWS, random_model, ranker_recipe
from triton_ads.export.tier import SIDES, Probability
from triton_ads.features.ids import FIRST_ROW
from triton_ads.models import build_model
from triton_ads.models.example import example_inputs
from triton_ads.recipe import load_recipe
from triton_ads.split import check_parity, check_row_independence, split
from triton_ads.split.report import report

ADAPTIVE = load_recipe(Path(__file__).parents[2] / "build/recipes/adaptive.yaml")


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("y", ["learned", "attentive"])
def test_parts_equal_the_model(heads: int, y: str) -> None:
    recipe = ranker_recipe("wukong", {"sequence": "attention", "heads": heads, "queries": 2, "y": y})
    model, inputs = Probability(random_model(recipe)).eval(), example_inputs(recipe, ROWS, rows=8)
    inputs["sequence_ids"][0] = 0
    inputs["sequence_ids"][1, 1:] = 0
    assert check_row_independence(model, inputs, 1e-5) <= 1e-5
    parts = split(model, {name: x[:3] for name, x in inputs.items()}, SIDES)
    assert check_parity(model, parts, inputs, 1e-5) <= 1e-5


@pytest.mark.parametrize(("tier", "least"), [("standard", 0.90), ("high", 0.60)])
def test_both_tiers_of_the_recipe_share_the_histories(tier: str, least: float) -> None:
    table_rows = {name: FIRST_ROW + (table.rows or 50) for name, table in ADAPTIVE.tables.items()}
    torch.manual_seed(0)
    model = build_model(ADAPTIVE, tier, table_rows).eval()
    inputs = example_inputs(ADAPTIVE, table_rows, rows=4)
    found = report(split(model, inputs, SIDES), inputs)
    assert found.shared >= least
    assert found.unshared == []
    # Three encoded histories of 50 events, and little else, travel from user to item.
    events = 3 * 50 * int(ADAPTIVE.tiers[tier].config["token_dim"])
    assert events * 4 < found.state_bytes < 1.7 * events * 4
