"""The tree that a build would make of a recipe's catalogue; nothing is trained or written."""

from pathlib import Path

from triton_ads.data.sources import read_log
from triton_ads.data.split import split_by_time
from triton_ads.recipe import Recipe, RecipeError
from triton_ads.recipe.target import Target
from triton_ads.targeting.catalogue import catalogue_of
from triton_ads.targeting.journeys import Journeys
from triton_ads.targeting.published import title_tokenizer
from triton_ads.trie import Tree


def preview(recipe: Recipe, downloads: Path) -> tuple[Tree, Target]:
    """The tree, and what the recipe says of targeting.

    Raises:
        RecipeError: it does not generate ads.
        DataError, TreeError, TitleError, ...: as the build's first stages would.
    """
    target = recipe.target
    if target is None:
        raise RecipeError(f"the recipe {recipe.name} has no `target`: it generates no ads")
    log = read_log(recipe, downloads)
    journeys = Journeys.of(log, split_by_time(log.time, recipe.data), target.journey)
    return catalogue_of(target, log, journeys, title_tokenizer(recipe, downloads)).tree, target
