"""The whole build of a recipe file, as `triton-ads build` and the demo run it."""

import functools
from pathlib import Path

from triton_ads.features.ids import FIRST_ROW
from triton_ads.models import build_model
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.lock import build_lock
from triton_ads.pipeline.plan import plan
from triton_ads.pipeline.runner import Selection, run_stages
from triton_ads.recipe import Recipe, load_recipe


def check_models(recipe: Recipe) -> None:
    """Refuse a tier's config now, not in its training stage minutes later.

    Raises:
        RecipeError: a setting that its model does not know or cannot use.
    """
    scenarios = len(recipe.heads.scenarios)
    table_rows = {name: FIRST_ROW + (table.rows or max(1, scenarios)) for name, table in recipe.tables.items()}
    for tier in recipe.tiers:
        build_model(recipe, tier, table_rows, range(FIRST_ROW, FIRST_ROW + scenarios))


def build(recipe_file: Path, var: Path, selection: Selection) -> Layout:
    """Run the stages of a recipe; prints a line for each.

    Raises:
        RecipeError: the recipe cannot be used.
        BuildRunningError: another process builds the same recipe in `var`.
        StageError: no such stage, or what it needs has not been built.
        And whatever a stage raises: errors of triton_ads say what is wrong.
    """
    recipe = load_recipe(recipe_file)
    check_models(recipe)
    layout = Layout(var, recipe.name)
    with build_lock(layout.stages):
        run_stages(plan(recipe, layout), selection, functools.partial(print, flush=True))
    return layout
