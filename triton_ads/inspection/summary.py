"""What came of a build: each tier beside the baselines, and what its split saves."""

import json

from rich.table import Table

from triton_ads.inspection.tables import new_table
from triton_ads.inspection.units import count, size
from triton_ads.manifest import Manifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe


def summary(layout: Layout) -> Table:
    """One row for each baseline and tier of the release that was built last.

    Raises:
        ManifestError: there is no valid release.
    """
    manifest = Manifest.load(layout.release, verify_files=False)
    recipe = manifest.recipe
    table = new_table(
        f"{recipe.name}, release {manifest.release}",
        "",
        *(f">AUC {label}" for label in recipe.labels),
        ">FLOPs user",
        ">FLOPs ad",
        ">shared",
        ">state",
        ">parity",
    )
    baselines = json.loads((layout.work("baselines") / "baselines.json").read_text())
    for name, quality in baselines.items():
        table.add_row(name.upper(), *_aucs(recipe, quality), *[""] * 5)
    table.add_section()
    for tier, found in manifest.tiers.items():
        split = json.loads((layout.graphs(tier) / "split.json").read_text())
        table.add_row(
            tier,
            *_aucs(recipe, found.quality),
            count(found.flops_user),
            count(found.flops_item),
            f"{split['shared']:.0%}",
            size(4 * found.state_size),
            f"{max(found.parity.values()):.0e}",
        )
    table.caption, table.caption_justify = _honesty(manifest), "left"
    return table


def _honesty(manifest: Manifest) -> str:
    """A line: 1 is honest, 1.1 promises 10 % too much."""
    tiers = [
        f"{tier} " + ", ".join(f"{quality['calibration']:.2f} {label}" for label, quality in found.quality.items())
        for tier, found in manifest.tiers.items()
    ]
    return "predicted / actual: " + "; ".join(tiers)


def _aucs(recipe: Recipe, quality: dict[str, dict[str, float]]) -> list[str]:
    return [f"{quality[label]['auc']:.4f}" for label in recipe.labels]
