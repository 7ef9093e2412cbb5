"""A recipe as tables: what each tensor of the wire holds, in order; the id tables; the tiers."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from triton_ads.inspection.tables import new_table
from triton_ads.inspection.units import size
from triton_ads.recipe import Column, Recipe

FLOAT_BYTES = 4


def show_recipe(recipe: Recipe, console: Console) -> None:
    console.print(f"[bold]{recipe.name}[/]  digest {recipe.digest[:12]}", highlight=False)
    console.print(wire_table(recipe))
    if recipe.sequences:
        console.print(sequences_table(recipe))
    console.print(tables_table(recipe))
    console.print(tiers_table(recipe))


def wire_table(recipe: Recipe) -> Table:
    """Inputs of `rank` whose columns a recipe decides (docs/wire.md)."""
    table = new_table("Columns of the wire's tensors, in order", "tensor", ">columns", ">position", "feature", "table")
    for tensor, columns in (
        ("user_features", recipe.id_columns("user")),
        ("user_dense", recipe.dense_columns("user")),
        ("context_features", recipe.id_columns("context")),
        ("context_dense", recipe.dense_columns("context")),
        ("item_features, an ad", recipe.id_columns("item")),
        ("item_dense, an ad", recipe.dense_columns("item")),
        ("item_values, an ad", recipe.value_columns()),
    ):
        for n, cells in enumerate(_grouped(columns)):
            table.add_row(*((tensor, str(len(columns))) if n == 0 else ("", "")), *cells)
    return table


def sequences_table(recipe: Recipe) -> Table:
    """What `sequence_lengths` counts and `sequences` holds."""
    title = f"Sequences, one after the other, most recent event first; {recipe.sequence_width} ids at most"
    table = new_table(title, "sequence", ">events", "ids of an event, in order (table)")
    for sequence in recipe.sequences:
        fields = ", ".join(f.name if f.name == f.table else f"{f.name} ({f.table})" for f in sequence.fields)
        table.add_row(sequence.name, str(sequence.length), fields)
    return table


def _grouped(columns: list[Column]) -> Iterable[tuple[str, str, str]]:
    """(positions, feature, table) of each feature; one of several ids takes a run of columns."""
    starts = [n for n, column in enumerate(columns) if column.slot == 0]
    ends = [*starts[1:], len(columns)] if columns else []
    for start, end in zip(starts, ends, strict=True):
        column = columns[start]
        span = str(start) if end == start + 1 else f"{start}-{end - 1}"
        yield span, column.feature, column.table or "(a float)"


def tables_table(recipe: Recipe) -> Table:
    table = new_table("Id tables: PAD, OOV and real rows", "table", "real rows", ">width", ">a vector")
    for name, found in recipe.tables.items():
        rows = f"{found.rows}, by hash" if found.rows else "the ids seen in training"
        table.add_row(name, rows, str(found.width), size(FLOAT_BYTES * found.width))
    return table


def tiers_table(recipe: Recipe) -> Table:
    title = f"Tiers; labels {', '.join(recipe.labels)}, ranked by {recipe.rank_rule.text}"
    table = new_table(title, "tier", "model", "settings that are not the default")
    for name, tier in recipe.tiers.items():
        table.add_row(name, tier.model, ", ".join(f"{k}: {v}" for k, v in tier.config.items()))
    return table
