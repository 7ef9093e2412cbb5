"""Stage `router`: where the recipe's router is learned, its model and what it is worth."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.data.examples import Examples
from triton_ads.manifest import TierManifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.training.calibrate import served_logits
from triton_ads.training.router import train_router


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    tiers = {
        tier: TierManifest.model_validate_json(layout.tier_manifest(tier).read_text())
        for tier in (recipe.router.default_tier, str(recipe.router.high_tier))
    }
    examples = Examples.load(recipe, layout.work("data") / "examples")
    train_router(
        recipe,
        layout.work("data"),
        {
            part: {
                t: served_logits(examples, layout.work("train", t), layout.work("calibrate", t), part) for t in tiers
            }
            for part in ("validation", "test")
        },
        tiers,
        layout.work("router"),
    )
    return ()
