"""Stage `release`: tiers, vocabularies and store become one release, named by what it holds."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from triton_ads.export.calibration_bound import check_calibration
from triton_ads.export.release import write_release
from triton_ads.manifest import Manifest, ManifestError, RouterManifest, TargetManifest, TierManifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    tiers = {
        tier: (layout.graphs(tier), TierManifest.model_validate_json(layout.tier_manifest(tier).read_text()))
        for tier in recipe.tiers
    }
    check_calibration(recipe, {tier: manifest for tier, (_, manifest) in tiers.items()})
    router = None
    if recipe.router.learned:
        work = layout.work("router")
        router = work / "gain.json", RouterManifest.model_validate_json((work / "router.json").read_text())
    target = None
    if recipe.target is not None:
        pack = layout.work("pack")
        target = (
            layout.work("identifiers"),
            pack / "model",
            TargetManifest.model_validate_json((pack / "target.json").read_text()),
        )
    release = write_release(recipe, layout.work("data"), tiers, layout.releases, router, target)
    try:
        Manifest.load(release)
    except ManifestError:  # one that was there already and was damaged since
        shutil.rmtree(release)
        release = write_release(recipe, layout.work("data"), tiers, layout.releases, router, target)
    layout.release.symlink_to(os.path.relpath(release.resolve(), layout.release.parent.resolve()))
    return (release,)
