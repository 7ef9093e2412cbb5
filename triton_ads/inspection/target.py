"""What the generated ads of a release are worth, beside baselines."""

from rich.table import Table

from triton_ads.inspection.tables import new_table
from triton_ads.inspection.units import count, size
from triton_ads.manifest import TargetManifest


def target_table(target: TargetManifest, served: str) -> Table:
    """A row for every mode and baseline; `served` is the recipe's mode."""
    title = (
        f"Generated ads: {count(target.ads)} in the tree, {count(target.parameters)} parameters in "
        f"{size(target.weight_bytes)}, {target.questions} questions of the test part"
    )
    names = list(dict.fromkeys(name for measures in target.quality.values() for name in measures))
    table = new_table(title, "", *(f">{'ms, median' if name == 'milliseconds' else name}" for name in names))
    for kind, measures in target.quality.items():
        cells = [f"{measures[name]:.4f}" if name in measures else "" for name in names]
        table.add_row(f"{kind}, served" if kind == served else kind, *cells)
    return table
