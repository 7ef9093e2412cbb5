"""Stage `check TIER`: a model of one's own goes the whole way of `export` before it is trained.

Whether a model can be served does not depend on its weights, and training may take hours.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from triton_ads.data import Examples
from triton_ads.export.tier import export_tier
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.stages.export import quiet, samples
from triton_ads.recipe import Recipe
from triton_ads.training import new_model


def run(recipe: Recipe, layout: Layout, tier: str) -> Sequence[Path]:
    data = layout.work("data")
    rows = samples(Examples.load(recipe, data / "examples"))
    with tempfile.TemporaryDirectory() as temporary, quiet():
        found = export_tier(recipe, tier, new_model(recipe, tier, data), rows, {}, Path(temporary))
    (layout.work("check", tier) / "tier.json").write_text(found.model_dump_json(indent=1) + "\n")
    return ()
