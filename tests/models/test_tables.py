"""docs/models.md holds the tables that the command prints."""

from pathlib import Path

import pytest

from triton_ads.models import HyFormerConfig, WukongConfig
from triton_ads.models.tables import cost_table, settings_table
from triton_ads.recipe import load_recipe

ROOT = Path(__file__).parents[2]
RECIPE = load_recipe(ROOT / "build/recipes/movielens.yaml")
DOCS = (ROOT / "docs/models.md").read_text()


@pytest.mark.parametrize("tier", list(RECIPE.tiers))
def test_the_cost_of_the_default_recipe(tier: str) -> None:
    assert cost_table(RECIPE, tier) in DOCS


def test_the_settings() -> None:
    assert settings_table("hyformer", HyFormerConfig) in DOCS
    assert settings_table("wukong", WukongConfig) in DOCS
    assert "| `temperature` | 2.0 | above 0 to 1000 |" in DOCS
