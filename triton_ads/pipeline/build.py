"""The whole build of a recipe file, as `triton-ads build` and the demo run it."""

import functools
from pathlib import Path

from triton_ads.data import DataError
from triton_ads.export.served import is_served
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.lock import build_lock
from triton_ads.pipeline.plan import plan
from triton_ads.pipeline.runner import Selection, run_stages
from triton_ads.recipe import RecipeError, load_recipe


def build(recipe_file: Path, var: Path, selection: Selection) -> Layout:
    """Run the stages of a recipe; prints a line for each.

    Raises:
        RecipeError, DataError: the recipe, or its data, cannot be used; the message begins with the recipe's file.
        BuildRunningError: another process builds the same recipe in `var`.
        StageError: no such stage, or what it needs has not been built.
        And whatever a stage raises: errors of triton_ads say what is wrong.
    """
    recipe = load_recipe(recipe_file)
    layout = Layout(var, recipe.name)
    try:
        stages = plan(recipe, layout)
    except RecipeError as error:
        raise RecipeError(f"{recipe_file}: {error}") from error
    say = functools.partial(print, flush=True)
    with build_lock(layout.stages):
        if is_served(layout.repository) and selection.only is None:
            stages = [stage for stage in stages if stage.kind != "repository"]
            say(f"{layout.repository} is being served and stays as it is")
        try:
            run_stages(stages, selection, say)
        except (RecipeError, DataError) as error:  # found by a stage, which does not know the file
            raise type(error)(f"{recipe_file}: {error}") from error
    return layout
