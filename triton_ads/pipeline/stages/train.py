"""Stage `train TIER`: a tier's checkpoint, and its quality on validation and test examples."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.features.ids import FIRST_ROW
from triton_ads.models import build_model
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.training import train


def run(recipe: Recipe, layout: Layout, tier: str) -> Sequence[Path]:
    check_models(recipe)
    train(recipe, tier, layout.work("data"), layout.work("train", tier))
    return ()


def check_models(recipe: Recipe) -> None:
    """Refuse the config of any tier before the first one is trained, not minutes later.

    Raises:
        RecipeError: a setting that its model does not know or cannot use.
    """
    scenarios = len(recipe.heads.scenarios)
    table_rows = {name: FIRST_ROW + (table.rows or max(1, scenarios)) for name, table in recipe.tables.items()}
    for tier in recipe.tiers:
        build_model(recipe, tier, table_rows, range(FIRST_ROW, FIRST_ROW + scenarios))
