"""A build of the tiny recipe with a real model, as `triton-ads build` leaves it, but not trained: random weights."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from tests.support.tiny_release import tiny_recipe, write_tiny_release
from triton_ads.export.release import write_release
from triton_ads.export.repository import write_repository
from triton_ads.export.tier import export_tier
from triton_ads.features.vocabulary import Tables
from triton_ads.models.calibration import LabelMap
from triton_ads.models.example import example_inputs
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe, parse_recipe
from triton_ads.training import new_model
from triton_ads.training.calibrate import calibrated_ranker

TIER = "standard"
_MODEL = {
    "token_dim": 8,
    "layers": 1,
    "fm_tokens": 2,
    "linear_tokens": 2,
    "rank": 2,
    "fm_hidden": 8,
    "head_hidden": 8,
    "dense_width": 4,
}


def small_recipe() -> Recipe:
    """The tiny recipe with one tier, a small Wukong, and room for 1,000 candidates."""
    document = tiny_recipe(max_candidates=1000).model_dump(mode="json")
    document["tiers"] = {TIER: {"model": "wukong", "config": _MODEL}}
    document["router"] = {"default_tier": TIER}
    return parse_recipe(document)


def write_build(var: Path) -> Layout:
    """Write checkpoint, maps, release and repository of `small_recipe` under `var`."""
    recipe = small_recipe()
    layout = Layout(var, recipe.name)
    data, trained = layout.work("data"), layout.work("train", TIER)
    maps = layout.work("calibrate", TIER) / "maps.json"
    write_tiny_release(data, recipe)
    ranker = new_model(recipe, TIER, data)
    randomise(ranker)
    for folder in (trained, maps.parent, layout.graphs(TIER), layout.release.parent):
        folder.mkdir(parents=True)
    torch.save(ranker.state_dict(), trained / "checkpoint.pt")
    maps.write_text(json.dumps([asdict(LabelMap(recipe.labels[0], None, slope=0.5, shift=-0.25))]))
    shutil.copy(maps, layout.graphs(TIER) / maps.name)
    rows = example_inputs(recipe, Tables.load(recipe, data / "vocabularies").table_rows, 8)
    quality = {label: {"auc": 0.5} for label in recipe.labels}
    ranker = calibrated_ranker(recipe, TIER, data, trained / "checkpoint.pt", maps)
    manifest = export_tier(recipe, TIER, ranker, rows, quality, layout.graphs(TIER))
    release = write_release(recipe, data, {TIER: (layout.graphs(TIER), manifest)}, layout.releases)
    layout.release.symlink_to(os.path.relpath(release, layout.release.parent))
    write_repository(release, layout.repository)
    return layout


def randomise(model: nn.Module, seed: int = 0) -> None:
    """Weights so large that scores of different candidates differ visibly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5, generator=generator)
