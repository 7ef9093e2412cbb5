"""Stage `pack`: the generator's packed weights, and how the answers of the served search compare with baselines.

STAGE/model/ holds what a release takes over, STAGE/target.json the manifest, quality included.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from triton_ads.compression.packed_model import write_packed_model
from triton_ads.data.sources import read_log
from triton_ads.data.split import split_by_time
from triton_ads.manifest import TargetManifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.serving.decoder import Decoder
from triton_ads.targeting.catalogue import identifiers_of, prompts_of
from triton_ads.targeting.journeys import Journeys
from triton_ads.targeting.pack import packed
from triton_ads.targeting.published import CATALOGUE_FILE, checkpoint_of
from triton_ads.targeting.quality import measure
from triton_ads.trie import load_tree


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    target = recipe.target
    assert target is not None  # the plan asks for this stage of no other recipe
    log, catalogue = read_log(recipe, layout.downloads), layout.work("identifiers")
    trained, folder = layout.work("generator"), layout.work("pack")
    # Of the checkpoint: refused here, and at every load, where the tree is another.
    tree = load_tree(catalogue / "tree", json.loads((trained / CATALOGUE_FILE).read_text())["catalogue"])
    form = prompts_of(target, catalogue)
    published = target.model.checkpoint is not None
    model = packed(checkpoint_of(recipe, layout.downloads) if published else trained, target)
    write_packed_model(folder / "model", model)
    journeys = Journeys.of(log, split_by_time(log.time, recipe.data), target.journey)
    questions = journeys.questions("test", target.questions)
    quality = measure(log, journeys, questions, identifiers_of(tree, log), tree, Decoder(model), form, target)
    manifest = TargetManifest(
        catalogue=tree.catalogue,
        ads=tree.ads,
        nodes=tree.nodes,
        words=len(json.loads((catalogue / "words.json").read_text(encoding="utf-8"))),
        vocabulary=model.config.vocabulary,
        parameters=sum(rows * columns for rows, columns in model.config.linear_layers().values()),
        weight_bytes=model.weight_bytes,
        questions=len(questions),
        quality=quality,
    )
    (folder / "target.json").write_text(manifest.model_dump_json(indent=1) + "\n")
    for name, measures in quality.items():
        print(f"  {name:10}", ", ".join(f"{measure} {value:.3f}" for measure, value in measures.items()), flush=True)
    return ()
