"""What came of a build: each tier beside the baselines, and what its split saves."""

import json

from rich.table import Table

from triton_ads.manifest import Manifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe


def summary(recipe: Recipe, layout: Layout) -> Table:
    """One row for each baseline and tier of the release that was built last.

    Raises:
        ManifestError: there is no valid release.
    """
    manifest = Manifest.load(layout.release, verify_files=False)
    table = Table(title=f"{recipe.name}, release {manifest.release}", title_justify="left")
    table.add_column("")
    for label in recipe.labels:
        table.add_column(f"AUC {label}", justify="right")
    for name in ("FLOPs user", "per ad", "shared", "state", "parity"):
        table.add_column(name, justify="right")
    baselines = json.loads((layout.work("baselines") / "baselines.json").read_text())
    for name, quality in baselines.items():
        table.add_row(name.upper(), *_aucs(recipe, quality), *[""] * 5)
    table.add_section()
    for tier, found in manifest.tiers.items():
        split = json.loads((layout.graphs(tier) / "split.json").read_text())
        table.add_row(
            f"{tier} ({found.model})",
            *_aucs(recipe, found.quality),
            count(found.flops_user),
            count(found.flops_item),
            f"{split['shared']:.0%}",
            size(4 * found.state_size),
            f"{max(found.parity.values()):.0e}",
        )
    return table


def _aucs(recipe: Recipe, quality: dict[str, dict[str, float]]) -> list[str]:
    return [f"{quality[label]['auc']:.4f}" for label in recipe.labels]


def count(number: float) -> str:
    """
    >>> count(24_739_872)
    '24.7 M'
    """
    power = 0
    while number >= 1000 and power < 3:
        number, power = number / 1000, power + 1
    return f"{number:.3g} {'kMG'[power - 1]}" if power else f"{number:g}"


def size(number: int) -> str:
    """
    >>> size(80420)
    '80.4 kB'
    """
    return f"{count(number)}B" if number >= 1000 else f"{number} B"
