"""One look for all tables."""

from rich import box
from rich.table import Table


def new_table(title: str, *columns: str) -> Table:
    """A table with a title and columns; a column whose name starts with ">" is set to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left")
    return table
