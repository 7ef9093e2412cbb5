"""Where each feature and history lies among the ids and the gathered floats of its side."""

from collections.abc import Iterable
from dataclasses import dataclass

from triton_ads.recipe import Recipe, Side


@dataclass(frozen=True)
class Span:
    """One feature (slots: its ids) or one history (slots: its events), next to its neighbours in a row."""

    name: str
    slots: int
    tables: tuple[str, ...]  # of the ids of one slot
    ids: slice  # columns of the side's id tensor
    floats: slice  # columns of the side's gathered vectors
    width: int  # floats of one slot


def feature_spans(recipe: Recipe, *sides: Side) -> list[Span]:
    """Spans of the id features of `sides`, in the order of `recipe.id_columns(*sides)`."""
    entries = [
        (f.name, f.length or 1, (f.table,))
        for side in sides
        for f in recipe.features
        if f.side == side and f.table is not None
    ]
    return _lay_out(recipe, entries, 0, 0)


def history_spans(recipe: Recipe, after: list[Span]) -> list[Span]:
    """Spans of the sequences, which follow the features `after` in the user side's row."""
    entries = [(s.name, s.length, tuple(f.table for f in s.fields)) for s in recipe.sequences]
    return _lay_out(recipe, entries, after[-1].ids.stop, after[-1].floats.stop)


def _lay_out(recipe: Recipe, entries: Iterable[tuple[str, int, tuple[str, ...]]], ids: int, floats: int) -> list[Span]:
    spans = []
    for name, slots, tables in entries:
        width = sum(recipe.tables[table].width for table in tables)
        ids_end, floats_end = ids + slots * len(tables), floats + slots * width
        spans.append(Span(name, slots, tables, slice(ids, ids_end), slice(floats, floats_end), width))
        ids, floats = ids_end, floats_end
    return spans
