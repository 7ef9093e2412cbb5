"""Stage `generator`: a llama-family checkpoint that continues journeys and queries with identifiers.

Of a recipe that names a published model nothing is trained: it is checked that the model is one for these identifiers.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from triton_ads.data.log import Log
from triton_ads.data.sources import read_log
from triton_ads.data.split import split_by_time
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.recipe.target import Target
from triton_ads.targeting.catalogue import identifiers_of, prompt_format, texts_of
from triton_ads.targeting.examples import ExampleMaker
from triton_ads.targeting.journeys import Journeys
from triton_ads.targeting.published import CATALOGUE_FILE, check_trained_for, checkpoint_of
from triton_ads.targeting.tokenizer import tokenizer_file
from triton_ads.targeting.train import train_generator
from triton_ads.trie import Tree, load_tree


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    target = recipe.target
    assert target is not None  # the plan asks for this stage of no other recipe
    catalogue, folder = layout.work("identifiers"), layout.work("generator")
    tree = load_tree(catalogue / "tree")
    if target.model.checkpoint is None:
        _train(recipe, target, read_log(recipe, layout.downloads), tree, catalogue, folder)
    elif target.identifiers.of != "titles":
        check_trained_for(checkpoint_of(recipe, layout.downloads), tree)
    (folder / CATALOGUE_FILE).write_text(json.dumps({"catalogue": tree.catalogue}) + "\n")
    return ()


def _train(recipe: Recipe, target: Target, log: Log, tree: Tree, catalogue: Path, folder: Path) -> None:
    form = prompt_format(target, catalogue)
    widths = json.loads((catalogue / "branching.json").read_text())
    journeys = Journeys.of(log, split_by_time(log.time, recipe.data), target.journey)
    train_generator(
        ExampleMaker(form, identifiers_of(tree, log), texts_of(log), target.training.query_share),
        journeys.training(),
        form.vocabulary.first_identifier + sum(widths),
        form.longest(tree.length),
        target.model,
        target.training,
        folder,
    )
    (folder / "tokenizer.json").write_text(tokenizer_file(form.vocabulary, widths), encoding="utf-8")
