"""A release as tables: its tiers, and what the split of each does."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from triton_ads.export.calibration_bound import highest_ratio
from triton_ads.inspection.drawing import picture_of, show_drawing
from triton_ads.inspection.router import router_table
from triton_ads.inspection.split import FLOAT_BYTES, SplitDocument, show_report
from triton_ads.inspection.tables import new_table
from triton_ads.inspection.target import target_table
from triton_ads.inspection.units import count, size
from triton_ads.manifest import Manifest, ManifestError

#: Measures of the scores without the calibration maps begin so.
UNCALIBRATED = "uncalibrated_"


def show_release(folder: Path, console: Console) -> None:
    """
    Raises:
        ManifestError: no release, or a damaged one: the digest of every file is checked.
    """
    manifest = Manifest.load(folder)
    recipe = manifest.recipe
    console.print(f"[bold]{recipe.name}[/]  release {manifest.release}  {folder}", highlight=False, soft_wrap=True)
    console.print(
        f"recipe {manifest.recipe_digest[:12]}  vocabularies {manifest.vocabulary_digest[:12]}", highlight=False
    )
    total = sum((folder / name).stat().st_size for name in manifest.files)
    console.print(f"{len(manifest.files)} files, {size(total)}, all digests right", highlight=False)
    console.print(tiers_table(manifest))
    console.print(quality_table(manifest))
    router = router_table(folder, manifest)
    if router is not None:
        console.print(router)
    console.print(calibration_table(manifest))
    if manifest.target is not None and recipe.target is not None:
        console.print(target_table(manifest.target, recipe.target.mode))


def tiers_table(manifest: Manifest) -> Table:
    """What a request costs; times are of the building machine, one thread, tiles of `serving.tile` ads."""
    table = new_table("Tiers", "", *(f">{name}" for name in manifest.tiers))
    rows: dict[str, list[str]] = {}
    for tier in manifest.tiers.values():
        values = {
            "model": tier.model,
            "engine": f"{tier.engine} {tier.precision}",
            "parameters": count(tier.parameters),
            "FLOPs a user": count(tier.flops_user),
            "FLOPs an ad": count(tier.flops_item),
            "state of a user": size(FLOAT_BYTES * tier.state_size),
            "time a user": f"{tier.cost.user_ms:.2f} ms",
            f"time a tile of {manifest.recipe.serving.tile} ads": f"{tier.cost.tile_ms:.2f} ms",
            "time a batch": f"{tier.cost.fixed_ms:.2f} ms",
            **{f"parity {pair}": f"{difference:.1e}" for pair, difference in tier.parity.items()},
        }
        for key, value in values.items():
            rows.setdefault(key, []).append(value)
    for key, found in rows.items():
        table.add_row(key, *found)
    return table


def quality_table(manifest: Manifest) -> Table:
    """What is served; where maps were fitted, what it would be without them in a row of its own."""
    found = {
        (name, label, uncalibrated): {
            m.removeprefix(UNCALIBRATED): value
            for m, value in quality.items()
            if m.startswith(UNCALIBRATED) == uncalibrated
        }
        for name, tier in manifest.tiers.items()
        for label, quality in tier.quality.items()
        for uncalibrated in (False, True)
    }
    measures = list(dict.fromkeys(m for quality in found.values() for m in quality))
    table = new_table("Quality on the test part", "tier", "label", *(f">{measure}" for measure in measures))
    for (name, label, uncalibrated), quality in found.items():
        if quality:
            cells = (f"{quality[m]:.4f}" if m in quality else "" for m in measures)
            table.add_row("  uncalibrated" if uncalibrated else name, label, *cells)
    return table


def calibration_table(manifest: Manifest) -> Table:
    """Predicted over actual of every tier: 1 is honest, 1.1 promises 10 % too much; *: held to no bound."""
    settings = manifest.recipe.calibration
    columns = ("tier", "label", "scenario", ">examples", ">positives", ">predicted", ">ratio")
    table = new_table(f"Predicted over actual on the test part; calibration: {settings.method}", *columns)
    table.columns[2].overflow = "fold"  # all digits of an id
    for name, tier in manifest.tiers.items():
        for sums in tier.calibration:
            counts = (str(sums.examples), str(sums.positives), f"{sums.predicted:.0f}")
            mark = " " if highest_ratio(manifest.recipe, sums) is not None else "*"
            table.add_row(name, sums.label, sums.scenario or "all", *counts, f"{sums.ratio:.3f}{mark}")
    overall, within = (f"{1 / (1 + t):.2f} to {1 + t:.2f}" for t in (settings.tolerance, settings.scenario_tolerance))
    table.caption = (
        f"allowed: {overall}, within a scenario {within}\n"
        f"* held to no bound: fewer than {settings.min_examples} positives or negatives"
    )
    table.caption_justify = "left"
    return table


def show_split(folder: Path, tier: str | None, console: Console, picture: Path | None = None) -> None:
    """Tables and a drawing of every tier's split, or of one; `picture`: a file for the drawing of that one, as SVG.

    Raises:
        ManifestError: no release, no such tier, or no report of its split.
    """
    manifest = Manifest.load(folder, verify_files=False)
    if tier is not None and tier not in manifest.tiers:
        raise ManifestError(f"{folder}: tier {tier!r} is not known; tiers: {', '.join(manifest.tiers)}")
    for name in [tier] if tier else manifest.tiers:
        report = SplitDocument.load(folder / "tiers" / name / "split.json")
        show_report(name, report, console)
        show_drawing(
            f"{manifest.recipe.name} {name}", report, console, picture_of(picture, name, alone=tier is not None)
        )
