"""Parquet files as one table, and its columns as what a Log holds: ids, floats, labels, times.

Only columns that are asked for are read. Every complaint names the file, the column, the row (from 0, in that file),
what was found and what is allowed.
"""

# Legend: n rows, W ids of a multi-valued column.

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from triton_ads.data.download import DataError
from triton_ads.features.ids import INT64_MAX, MISSING, raw_id

#: Unix seconds of the year 2200: what is later is taken for another unit.
_LATEST = 7_258_118_400


@dataclass(frozen=True)
class ParquetTable:
    """Rows of one or more files, in the order of the files. `table` has categories as what they stand for."""

    table: pa.Table
    files: tuple[Path, ...]
    rows: tuple[int, ...]  # of each file

    @classmethod
    def read(cls, files: Iterable[Path], columns: Iterable[str]) -> Self:
        """Read `columns` of all files.

        Raises:
            DataError: a file is no Parquet, lacks a column, or has one of another type than the first file.
        """
        files, names = tuple(files), list(dict.fromkeys(columns))
        parts = [_read(file, names) for file in files]
        try:
            table = pa.concat_tables(parts, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DataError(f"{files[0]} and {len(files) - 1} more: columns of different types: {error}") from None
        return cls(table, files, tuple(part.num_rows for part in parts))

    def __len__(self) -> int:
        return self.table.num_rows

    def __contains__(self, column: str) -> bool:
        return column in self.table.column_names

    def value(self, column: str, row: int) -> Any:
        """A value as it stands in the file, for messages."""
        return self.table[column][row].as_py()

    def place(self, column: str, row: int | None = None) -> str:
        """`events.parquet: column time, row 3`."""
        if row is None:
            return f"{self.files[0]}{' ...' if len(self.files) > 1 else ''}: column {column}"
        starts = np.cumsum([0, *self.rows])
        at = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{self.files[at]}: column {column}, row {row - starts[at]}"

    def keys(self, column: str) -> NDArray[np.int64]:
        """Raw ids `int64 [n]` of users or items: every row has one.

        Raises:
            DataError: a value is missing, or -1, which means that one is.
        """
        ids = self.ids(column)
        self._refuse(column, ids == MISSING, f"an id other than {MISSING}, which stands for none,")
        return ids

    def ids(self, column: str) -> NDArray[np.int64]:
        """Raw ids `int64 [n]`: integers as they are, the hash of a text, 0 and 1 for booleans; MISSING for null.

        Raises:
            DataError: values of another type, or integers beyond int64.
        """
        return self._raw(column, self._array(column))

    def id_lists(self, column: str, length: int) -> NDArray[np.int64]:
        """The first `length` raw ids of each row's list, `int64 [n, length]`, MISSING after the last.

        A column of single ids counts as lists of one.

        Raises:
            DataError: as of `ids`.
        """
        array = self._array(column)
        lists_nW = np.full((len(self), length), MISSING, dtype=np.int64)
        if not _is_list(array.type):
            lists_nW[:, 0] = self._raw(column, array)
            return lists_nW
        flat = self._raw(column, array.values)
        first, end = array.offsets.to_numpy()[:-1], array.offsets.to_numpy()[1:]
        known = array.is_valid().to_numpy(zero_copy_only=False)
        for slot in range(length):
            has = known & (first + slot < end)
            lists_nW[has, slot] = flat[first[has] + slot]
        return lists_nW

    def floats(self, column: str) -> NDArray[np.float32]:
        """Finite values `float32 [n]`.

        Raises:
            DataError: null, not finite as float32, or no number.
        """
        values = self._float64(column)
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32)
        self._refuse(column, ~np.isfinite(narrow), "a finite number that fits float32")
        return narrow

    def values(self, column: str) -> NDArray[np.float32]:
        """Values `float32 [n]`, NaN for null.

        Raises:
            DataError: infinite as float32, or no number.
        """
        with np.errstate(over="ignore"):
            narrow = self._float64(column).astype(np.float32)
        self._refuse(column, np.isinf(narrow), "a number that fits float32, or null")
        return narrow

    def flags(self, column: str) -> NDArray[np.bool_]:
        """Booleans, or numbers that are 0 or 1, as bool [n].

        Raises:
            DataError: anything else.
        """
        values = self._float64(column)
        self._refuse(column, (values != 0) & (values != 1), "0, 1, true or false")
        return values == 1

    def times(self, column: str) -> NDArray[np.int64]:
        """Unix seconds `int64 [n]` of integers (seconds), timestamps (those without a zone are UTC) or dates.

        Raises:
            DataError: null, before 1970, after 2200, or of another type.
        """
        array = self._array(column)
        if pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("s"))
        allowed = "unix seconds of 1970 to 2200, a timestamp or a date"
        if pa.types.is_timestamp(array.type):
            per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
            self._refuse(column, array.is_null().to_numpy(zero_copy_only=False), allowed)
            seconds = array.cast(pa.int64()).to_numpy(zero_copy_only=False) // per_second
        elif pa.types.is_integer(array.type):
            seconds = self._raw(column, array)
        else:
            raise DataError(f"{self.place(column)}: type {self.table[column].type} found, {allowed} allowed")
        self._refuse(column, (seconds < 0) | (seconds > _LATEST), allowed)
        return seconds

    def texts(self, column: str, rows: NDArray[np.int64]) -> list[str | None]:
        """What to show a person of some rows: any value as text, None for null."""
        found = self.table[column].take(pa.array(rows)).to_pylist()
        return [None if value is None else str(value) for value in found]

    def _array(self, column: str) -> pa.Array:
        """A column in one piece, texts and lists with offsets of 64 bits."""
        kind = self.table[column].type
        if pa.types.is_string(kind):
            kind = pa.large_string()
        elif _is_list(kind):
            kind = pa.large_list(kind.value_type)
        return self.table[column].cast(kind).combine_chunks()

    def _raw(self, column: str, array: pa.Array) -> NDArray[np.int64]:
        kind = array.type
        if pa.types.is_null(kind):
            return np.full(len(array), MISSING, dtype=np.int64)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return _hashed(array)
        if pa.types.is_boolean(kind):
            array = array.cast(pa.int8())
        elif not pa.types.is_integer(kind):
            found = self.table[column].type
            raise DataError(f"{self.place(column)}: type {found} found, an integer, text or boolean allowed")
        if pa.types.is_uint64(kind) and len(array) and (pc.max(array).as_py() or 0) > INT64_MAX:
            raise DataError(f"{self.place(column)}: {pc.max(array)} found, at most {INT64_MAX} allowed")
        return pc.fill_null(array.cast(pa.int64()), MISSING).to_numpy(zero_copy_only=False)

    def _float64(self, column: str) -> NDArray[np.float64]:
        """NaN for null."""
        array = self._array(column)
        kind = array.type
        if pa.types.is_boolean(kind):
            array = array.cast(pa.int8())
        elif pa.types.is_null(kind):
            return np.full(len(array), np.nan)
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            raise DataError(
                f"{self.place(column)}: type {self.table[column].type} found, a number or a boolean allowed"
            )
        return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)

    def _refuse(self, column: str, wrong: Any, allowed: str) -> None:
        wrong_n = np.asarray(wrong)
        if wrong_n.any():
            row = int(wrong_n.argmax())
            found = self.value(column, row)
            more = int(np.count_nonzero(wrong_n)) - 1
            others = f" (and in {more} more rows)" if more else ""
            shown = "null" if found is None else repr(found)
            raise DataError(f"{self.place(column, row)}: {shown} found{others}, {allowed} allowed")


def column_names(file: Path) -> list[str]:
    """Columns of a file.

    Raises:
        DataError: it is no Parquet.
    """
    with _open(file) as opened:
        return list(opened.schema_arrow.names)


@contextmanager
def _open(file: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(file) as opened:
            yield opened
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{file}: cannot be read as Parquet: {error}") from None


def _read(file: Path, names: list[str]) -> pa.Table:
    with _open(file) as opened:
        found = opened.schema_arrow.names
        for name in names:
            if found.count(name) != 1:
                known = f"columns: {', '.join(found)}"
                raise DataError(f"{file}: column {name!r} found {found.count(name)} times, once needed; {known}")
        table = opened.read(columns=names).select(names)
        return table.cast(pa.schema([field.with_type(_plain(field.type)) for field in table.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    """What files may differ in, made one: categories as what they stand for, no views."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list_view(kind):
        return pa.large_list(_plain(kind.value_type))
    if _is_list(kind) and _plain(kind.value_type) != kind.value_type:
        return pa.large_list(_plain(kind.value_type))
    return kind


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _hashed(array: pa.Array) -> NDArray[np.int64]:
    """Each distinct text is hashed once."""
    coded = array.dictionary_encode()
    hashes = np.array([raw_id(text) for text in coded.dictionary.to_pylist()] or [MISSING], dtype=np.int64)
    code = pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)
    return np.where(array.is_null().to_numpy(zero_copy_only=False), MISSING, hashes[code])
