"""What a split does, as tables, as a text drawing and as SVG (drawing.py)."""

from pathlib import Path

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table

import triton_ads
from triton_ads.inspection.tables import new_table
from triton_ads.inspection.units import count, size
from triton_ads.manifest import ManifestError

FLOAT_BYTES = 4


class Copied(BaseModel):
    operator: str
    source: str
    elements: int
    reason: str = ""


class Entry(BaseModel):
    name: str
    shape: tuple[int, ...]
    dtype: str
    size: int
    source: str = ""


class Operator(BaseModel):
    operator: str
    source: str
    shape: tuple[int, ...]
    side: str
    flops_row: int
    flops_user: int
    flops_item: int


class SplitDocument(BaseModel):
    """tiers/TIER/split.json; triton_ads/split/report.py says what the fields mean."""

    flops_row: int
    flops_user: int
    flops_item: int
    shared: float
    state_bytes: int
    state: tuple[Entry, ...]
    operators: tuple[Operator, ...] = ()
    unshared: tuple[Copied, ...]

    @classmethod
    def load(cls, path: Path) -> "SplitDocument":
        """
        Raises:
            ManifestError: no report, or a damaged one.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ManifestError(f"{path}: no report of the split: {error.strerror or error}") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise ManifestError(
                f"{path}: no report of the split: {place}{': ' if place else ''}{first['msg']}"
            ) from None


def show_report(name: str, report: SplitDocument, console: Console) -> None:
    """The sentence, the tables, and what is copied for each ad."""
    console.print(f"[bold]{name}[/]", highlight=False)
    console.print(
        f"As written, a request of N ads costs N x {count(report.flops_row)} FLOPs; split, "
        f"{count(report.flops_user)} + N x {count(report.flops_item)}: "
        f"{report.shared:.1%} of an ad's operations are done once for a user.",
        highlight=False,
    )
    if report.operators:
        console.print(operators_table(report))
    console.print(state_table(report))
    if report.unshared:
        console.print(copied_table(report))
    else:
        console.print("Nothing of the user is copied for each ad.", highlight=False)


def operators_table(report: SplitDocument) -> Table:
    """Each operator that multiplies matrices: in which part it is, and what it costs as written and split."""
    table = new_table(
        "Products", "operator", "side", "value", ">FLOPs as written", ">share", ">once a user", ">for an ad", "where"
    )
    for o in report.operators:
        table.add_row(
            short_name(o.operator),
            o.side.replace(" ", " + "),
            by(o.shape),
            count(o.flops_row),
            f"{o.flops_row / report.flops_row:.1%}" if report.flops_row else "",
            count(o.flops_user),
            count(o.flops_item),
            where(o.source),
        )
    return table


def state_table(report: SplitDocument) -> Table:
    table = new_table(f"State of a user: {size(report.state_bytes)}", "value", "shape", "dtype", ">bytes", "where")
    for entry in report.state:
        table.add_row(entry.name, by(entry.shape), entry.dtype, str(FLOAT_BYTES * entry.size), where(entry.source))
    return table


def copied_table(report: SplitDocument) -> Table:
    table = new_table("Copied for each ad", "operator", ">elements an ad", "why", "where")
    for copied in report.unshared:
        table.add_row(copied.operator, str(copied.elements), copied.reason, where(copied.source))
    return table


def short_name(operator: str) -> str:
    """
    >>> short_name("aten.linear.default")
    'linear'
    """
    parts = operator.split(".")
    return parts[1] if parts[0] == "aten" and len(parts) > 1 else operator


def by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "1"


def where(source: str) -> str:
    """A line of a model, as short as it can be found: inside the library without the path to it."""
    root = Path(triton_ads.__file__).parent.parent
    return source.removeprefix(f"{root}/")
