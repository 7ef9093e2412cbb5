"""A learned router as a table: what it was judged by, and what it looks at."""

from pathlib import Path

from rich.table import Table

from triton_ads.inspection.tables import new_table
from triton_ads.manifest import Manifest, ManifestError
from triton_ads.routing.gain import GAIN_FILE, GainError, GainParameters, read_gain

#: Features that are named, those of the largest weights.
_NAMED = 8


def router_table(folder: Path, manifest: Manifest) -> Table | None:
    """None for a release whose router is not learned.

    Raises:
        ManifestError: the router's model cannot be read.
    """
    router = manifest.router
    if router is None:
        return None
    try:
        parameters = read_gain(folder / GAIN_FILE)
    except GainError as error:
        raise ManifestError(str(error)) from None
    table = new_table("Learned router: what the high tier gains, in thousandths of a nat", "", ">")
    table.add_row(f"mean of {router.requests['test']:,} requests of the test part", f"{1000 * router.gain:+.2f}")
    table.add_row("mean of the quarter it expects most of", f"{1000 * router.gain_of_best_quarter:+.2f}")
    table.add_section()
    for name, weight in _largest(parameters):
        table.add_row(f"one standard deviation of {name}", f"{1000 * weight:+.2f}")
    return table


def _largest(parameters: GainParameters) -> list[tuple[str, float]]:
    weights = zip(parameters.features, parameters.weight, strict=True)
    return sorted(weights, key=lambda named: -abs(named[1]))[:_NAMED]
