"""Stage `identifiers`: of a recipe that generates ads, the identifier tree, the words of queries, users' journeys."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.data.sources import read_log
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.targeting.catalogue import write_catalogue
from triton_ads.targeting.published import title_tokenizer
from triton_ads.trie.shape import described, shape_of


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    assert recipe.target is not None  # the plan asks for this stage of no other recipe
    log, folder = read_log(recipe, layout.downloads), layout.work("identifiers")
    tree = write_catalogue(recipe, recipe.target, log, folder, title_tokenizer(recipe, layout.downloads))
    beam = recipe.target.beam
    print(described(tree, shape_of(tree, beam), beam), flush=True)
    return ()
