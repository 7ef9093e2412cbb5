"""Users or items in Parquet files: one row each in a file of their own, or as their events describe them."""

# Legend: n events, N users or items, R rows of a table, W ids of a multi-valued column.

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.download import DataError
from triton_ads.data.parquet_table import ParquetTable

Kind = Literal["user", "item"]


class Entities:
    """All users, or all items.

    Args:
        kind: for messages.
        table: where their columns are read.
        key: the column of `table` that identifies them.
        unique: whether `table` holds one row of each; else it holds their events.

    Raises:
        DataError: an id is missing, or comes twice where it must not.
    """

    def __init__(self, kind: Kind, table: ParquetTable, key: str, *, unique: bool) -> None:
        self.kind, self.table, self.key = kind, table, key
        key_R = table.keys(key)
        #: int64 [N], sorted.
        self.ids, self._row_N, self._entity_R = np.unique(key_R, return_index=True, return_inverse=True)
        twice_R = self._row_N[self._entity_R] != np.arange(len(table))
        if unique and twice_R.any():
            row = int(twice_R.argmax())
            raise DataError(
                f"{table.place(key, row)}: {table.value(key, row)!r} found a second time; "
                f"one row for each {kind} is allowed"
            )

    def positions(self, events: ParquetTable, key: str, key_n: NDArray[np.int64]) -> NDArray[np.int32]:
        """Where in `ids` the user or item of every event is.

        Raises:
            DataError: one that is not there.
        """
        position_n = np.minimum(np.searchsorted(self.ids, key_n), max(0, len(self.ids) - 1))
        unknown_n = self.ids[position_n] != key_n if len(self.ids) else np.ones(len(key_n), dtype=np.bool_)
        if unknown_n.any():
            row, count = int(unknown_n.argmax()), int(np.count_nonzero(unknown_n))
            raise DataError(
                f"{events.place(key, row)}: {events.value(key, row)!r} found, which is no {self.kind} of "
                f"{self.table.files[0]} ({count} such events); a row for every {self.kind} of the events is needed"
            )
        return position_n.astype(np.int32)

    def pick(self, column: str, values_R: NDArray[Any]) -> NDArray[Any]:
        """The values of every user or item, [N] or [N, W], from those of every row.

        Raises:
            DataError: events of one user or item differ.
        """
        values_N = values_R[self._row_N]
        same_R = _equal(values_R, values_N[self._entity_R])
        if not same_R.all():
            row = int(same_R.argmin())
            first = int(self._row_N[self._entity_R[row]])
            table, kind = self.table, self.kind
            advice = " or declare it with `side: context`" if kind == "user" else ""
            raise DataError(
                f"{table.place(column, row)}: {table.value(column, row)!r} found, {table.value(column, first)!r} in "
                f"another event of {kind} {table.value(self.key, row)!r}; a feature of side {kind} must not change: "
                f"give `data.{kind}s`{advice}"
            )
        return values_N

    def texts(self, column: str) -> list[str | None]:
        """What to show a person, one text each."""
        return self.table.texts(column, self._row_N)


def _equal(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """bool [R]; NaN equals NaN."""
    same = (a == b) | ((a != a) & (b != b))
    return same if same.ndim == 1 else same.all(axis=1)
