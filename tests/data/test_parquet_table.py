"""Columns of Parquet files, against plain Python: any values, in any number of files, row groups and chunks."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.data.download import DataError
from triton_ads.data.parquet_table import ParquetTable, column_names
from triton_ads.features.ids import INT64_MAX, INT64_MIN, MISSING, raw_id

texts = st.one_of(st.none(), st.text(max_size=3))
integers = st.one_of(st.none(), st.integers(INT64_MIN, INT64_MAX))


def table(parts: list[list[object]], kind: pa.DataType, group: int) -> ParquetTable:
    """A column `x`, a file for each part, `group` rows in a row group."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{i}.parquet" for i in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            pq.write_table(pa.table({"x": pa.array(part, kind), "y": range(len(part))}), file, row_group_size=group)
        return ParquetTable.read(files, ["x"])


def ids(values: list[object]) -> list[int]:
    return [MISSING if v is None else raw_id(v) for v in values]  # type: ignore[arg-type]


@given(st.lists(st.lists(texts, max_size=6), min_size=1, max_size=3), st.integers(1, 4), st.booleans())
def test_texts_become_hashes(parts: list[list[object]], group: int, coded: bool) -> None:
    kind = pa.dictionary(pa.int32(), pa.string()) if coded else pa.string()
    assert table(parts, kind, group).ids("x").tolist() == ids([v for part in parts for v in part])


@given(st.lists(st.lists(integers, max_size=6), min_size=1, max_size=3), st.integers(1, 4))
def test_integers_stay(parts: list[list[object]], group: int) -> None:
    assert table(parts, pa.int64(), group).ids("x").tolist() == ids([v for part in parts for v in part])


@given(
    st.lists(st.lists(st.one_of(st.none(), st.lists(texts, max_size=4)), max_size=5), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_lists_are_cut_or_filled(parts: list[list[list[object] | None]], group: int, length: int) -> None:
    expected = [(ids(row or []) + [MISSING] * length)[:length] for part in parts for row in part]
    found = table(parts, pa.list_(pa.string()), group).id_lists("x", length)  # type: ignore[arg-type]
    assert found.shape == (len(expected), length)
    assert found.tolist() == expected


def test_a_place_is_a_row_of_its_file() -> None:
    found = table([[1, 2], [], [3]], pa.int64(), 4)
    places = [found.place("x", row).rpartition("/")[2] for row in range(3)]
    assert places == ["0.parquet: column x, row 0", "0.parquet: column x, row 1", "2.parquet: column x, row 0"]
    assert found.place("x").endswith("0.parquet ...: column x")


def test_one_column_of_a_name(tmp_path: Path) -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    assert column_names(tmp_path / "twice.parquet") == ["x", "x"]
    with pytest.raises(DataError, match=r"twice\.parquet: column 'x' found 2 times, once needed"):
        ParquetTable.read([tmp_path / "twice.parquet"], ["x"])


def test_files_may_have_categories_of_their_own(tmp_path: Path) -> None:
    """Categories, texts, texts as views, and categories of other categories: one column of texts."""
    coded = pa.array(["b", "a", None]).dictionary_encode()
    parts = [
        coded,
        pa.array(["a"]),
        pa.array(["c"], pa.string_view()),
        coded.cast(pa.dictionary(pa.int8(), pa.string())),
    ]
    files = [tmp_path / f"{number}.parquet" for number in range(len(parts))]
    for part, file in zip(parts, files, strict=True):
        pq.write_table(pa.table({"x": part}), file)
    assert ParquetTable.read(files, ["x"]).ids("x").tolist() == ids(["b", "a", None, "a", "c", "b", "a", None])


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_view(pa.string()),
        pa.list_(pa.string_view()),
        pa.large_list(pa.dictionary(pa.int8(), pa.string())),
    ],
)
def test_lists_of_every_kind(kind: pa.DataType, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([["a", "b"], [], None, ["c"]], kind)}), tmp_path / "lists.parquet")
    found = ParquetTable.read([tmp_path / "lists.parquet"], ["x"]).id_lists("x", 2)
    assert found.tolist() == [ids(["a", "b"]), ids([None, None]), ids([None, None]), ids(["c", None])]
