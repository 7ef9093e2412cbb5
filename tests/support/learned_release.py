"""The tiny release behind a learned router, whose model a test plants."""

from pathlib import Path
from typing import Any

from tests.support.tiny_release import seal, tiny_recipe, write_tiny_release
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe, parse_recipe
from triton_ads.routing.gain import GAIN_FILE, GainParameters
from triton_ads.routing.journey import JourneyFeatures


def learned_recipe(**router: Any) -> Recipe:
    document = tiny_recipe(max_candidates=2000).model_dump(mode="json")
    document["router"] |= {"kind": "learned", **router}
    return parse_recipe(document)


def write_learned_release(folder: Path, recipe: Recipe, **weights: float) -> Path:
    """A tiny release whose router expects `weights` of features by their names, and `bias`."""
    write_tiny_release(folder, recipe)
    names = JourneyFeatures(recipe, Tables.load(recipe, folder / "vocabularies").table_rows).names
    bias = weights.pop("bias", 0.0)
    assert set(weights) <= set(names)
    (folder / GAIN_FILE).parent.mkdir()
    (folder / GAIN_FILE).write_text(
        GainParameters(
            bias=bias,
            features=tuple(names),
            mean=(0.0,) * len(names),
            std=(1.0,) * len(names),
            weight=tuple(weights.get(name, 0.0) for name in names),
        ).model_dump_json()
    )
    seal(folder, recipe)
    return folder
