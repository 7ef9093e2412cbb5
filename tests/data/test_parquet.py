"""Parquet files as a Log: worked values, every way to lay the columns out, and the message for each thing wrong."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from triton_ads.data.columns import dense_columns, final_dense_columns
from triton_ads.data.download import DataError
from triton_ads.data.log import Log
from triton_ads.data.prepare import prepare
from triton_ads.data.sources import read_log
from triton_ads.features.ids import MISSING, raw_id
from triton_ads.recipe import Recipe, parse_recipe

HOUR = 1_700_000_000
EVENTS: dict[str, Any] = {
    "user_id": ["b", "a", "b", "a", "c"],
    "item_id": [20, 10, 10, 30, 20],
    "time": [HOUR + 50, HOUR + 10, HOUR + 20, HOUR + 30, HOUR + 20],
    "bought": [True, False, True, False, True],
    "place": ["feed", None, "story", "feed", "feed"],
    "spent": [1.5, 0.0, -2.0, 3.0, 4.0],
    "liked": [1, 0, 1, 1, 0],
}
USERS: dict[str, Any] = {
    "user_id": ["c", "a", "b", "d"],
    "age": [30.0, 10.0, 20.0, 40.0],
    "tags": [["x", "y", "z"], [], None, ["y"]],
}
ITEMS: dict[str, Any] = {
    "item_id": [30, 10, 20],
    "topic": ["t3", "t1", None],
    "price": [3, 1, 2],
    "bid": [0.5, None, 0.25],
    "name": ["thirty", "ten", None],
}


def recipe(folder: Path, **data: Any) -> Recipe:
    document = {
        "name": "mine",
        "data": {
            "source": "parquet",
            "events": "events.parquet",
            "users": "users.parquet",
            "items": "items.parquet",
            "title": "name",
            "histories": {"likes": "liked"},
            **data,
        },
        "tables": {name: {"kind": "vocabulary", "width": 4} for name in ("user", "tag", "place", "item", "topic")},
        "features": [
            {"name": "user_id", "side": "user", "table": "user"},
            {"name": "tags", "side": "user", "kind": "ids", "table": "tag", "length": 2},
            {"name": "age", "side": "user", "kind": "dense"},
            {"name": "activity", "side": "user", "kind": "dense"},
            {"name": "place", "side": "context", "table": "place"},
            {"name": "spent", "side": "context", "kind": "dense"},
            {"name": "item_id", "side": "item", "table": "item"},
            {"name": "topic", "side": "item", "table": "topic"},
            {"name": "price", "side": "item", "kind": "dense"},
            {"name": "bid", "side": "item", "kind": "value"},
        ],
        "sequences": [
            {
                "name": "likes",
                "length": 3,
                "fields": [{"name": name, "table": name} for name in ("item", "topic", "place")],
            },
            {"name": "all", "length": 3, "fields": [{"name": "item_id", "table": "item"}]},
        ],
        "labels": ["bought"],
        "tiers": {"standard": {"model": "wukong"}},
        "router": {"default_tier": "standard"},
    }
    document["data"].setdefault("columns", {"item": "item_id"})
    return parse_recipe(document, folder=folder)


def write(folder: Path, **tables: dict[str, Any] | None) -> None:
    for name, table in {"events": EVENTS, "users": USERS, "items": ITEMS, **tables}.items():
        if table is not None:
            pq.write_table(pa.table(table), folder / f"{name}.parquet")


def log(folder: Path, **data: Any) -> Log:
    return read_log(recipe(folder, **data), folder / "downloads")


def ids(*values: Any) -> list[int]:
    return [MISSING if value is None else raw_id(value) for value in values]


def test_worked(tmp_path: Path) -> None:
    """Users sorted by hash, items by id, events by time, then user, then item."""
    write(tmp_path)
    found = log(tmp_path)
    users = sorted(("a", "b", "c", "d"), key=raw_id)
    assert found.user_ids.tolist() == ids(*users)
    assert found.item_ids.tolist() == [10, 20, 30]
    assert found.titles == {10: "ten", 20: "20", 30: "thirty"}
    tied = sorted([("b", 10, 1.0, "story", -2.0, True), ("c", 20, 1.0, "feed", 4.0, False)], key=lambda e: raw_id(e[0]))
    events = [
        ("a", 10, 0.0, None, 0.0, False),
        *tied,
        ("a", 30, 0.0, "feed", 3.0, True),
        ("b", 20, 1.0, "feed", 1.5, True),
    ]
    assert found.time.tolist() == [HOUR + 10, HOUR + 20, HOUR + 20, HOUR + 30, HOUR + 50]
    assert [users[u] for u in found.user] == [e[0] for e in events]
    assert found.item_ids[found.item].tolist() == [e[1] for e in events]
    assert found.labels["bought"].tolist() == [e[2] for e in events]
    assert found.context_columns["place"][:, 0].tolist() == ids(*(e[3] for e in events))
    assert found.context_dense["spent"].tolist() == [e[4] for e in events]
    assert found.sequences["likes"].tolist() == [e[5] for e in events]
    assert found.sequences["all"].all()
    topic = {10: "t1", 20: None, 30: "t3"}
    assert found.event_fields["item"].tolist() == [e[1] for e in events]  # the column that `columns` names
    assert found.event_fields["topic"].tolist() == ids(*(topic[e[1]] for e in events))  # of the event's item
    assert found.event_fields["place"].tolist() == ids(*(e[3] for e in events))
    age = {"a": 10, "b": 20, "c": 30, "d": 40}
    assert found.user_dense["age"].tolist() == [age[u] for u in users]
    tags = {"a": (None, None), "b": (None, None), "c": ("x", "y"), "d": ("y", None)}
    assert found.user_columns["tags"].tolist() == [ids(*tags[u]) for u in users]
    assert found.item_columns["topic"][:, 0].tolist() == ids("t1", None, "t3")
    assert found.item_dense["price"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(found.item_values["bid"], np.array([np.nan, 0.25, 0.5], np.float32))
    assert (found.time.dtype, found.user.dtype, found.labels["bought"].dtype) == (np.int64, np.int32, np.float32)


def test_dense_columns_of_examples_and_of_the_store(tmp_path: Path) -> None:
    write(tmp_path)
    of = recipe(tmp_path)
    found = read_log(of, tmp_path)
    user_nD = dense_columns(of, found, "user", "context")
    assert user_nD[:, 0].tolist() == found.user_dense["age"][found.user].tolist()
    np.testing.assert_allclose(user_nD[:, 1], np.log1p([0, 0, 0, 1, 1]) / np.log1p(1000), rtol=1e-6)  # earlier events
    assert user_nD[:, 2].tolist() == found.context_dense["spent"].tolist()
    assert dense_columns(of, found, "item")[:, 0].tolist() == found.item_dense["price"][found.item].tolist()
    assert final_dense_columns(of, found, "user")[:, 0].tolist() == found.user_dense["age"].tolist()
    assert final_dense_columns(of, found, "item")[:, 0].tolist() == [1, 2, 3]


def denormalised() -> dict[str, Any]:
    """EVENTS with the columns of users and items in them."""
    user, item = ({k: i for i, k in enumerate(t[key])} for t, key in ((USERS, "user_id"), (ITEMS, "item_id")))
    columns = {name: [USERS[name][user[u]] for u in EVENTS["user_id"]] for name in ("age", "tags")}
    columns |= {name: [ITEMS[name][item[i]] for i in EVENTS["item_id"]] for name in ("topic", "price", "bid", "name")}
    return EVENTS | columns


def test_events_alone_say_the_same(tmp_path: Path) -> None:
    write(tmp_path)
    apart = log(tmp_path)
    write(tmp_path, events=denormalised())
    together = log(tmp_path, users=None, items=None)
    assert len(together.user_ids) == 3  # d met nothing
    here = np.isin(apart.user_ids, together.user_ids)
    for part in ("user_columns", "user_dense"):
        for name, values in getattr(apart, part).items():
            np.testing.assert_array_equal(getattr(together, part)[name], values[here])
    for part in ("item_columns", "item_dense", "item_values", "event_fields", "labels", "sequences", "context_columns"):
        for name, values in getattr(apart, part).items():
            np.testing.assert_array_equal(getattr(together, part)[name], values)
    assert together.titles == apart.titles


def test_a_folder_or_a_pattern_of_files_is_one_table(tmp_path: Path) -> None:
    write(tmp_path)
    whole = log(tmp_path)
    (tmp_path / "days" / "1").mkdir(parents=True)
    table = pa.table(EVENTS)
    pq.write_table(table.slice(2), tmp_path / "days" / "1" / "a.parquet")
    narrow = table.slice(0, 2).set_column(1, "item_id", pa.array(EVENTS["item_id"][:2], pa.int32()))
    pq.write_table(narrow, tmp_path / "days" / "b.parquet")
    (tmp_path / "days" / "notes.txt").write_text("no data")
    for path in ("days", "days/**/*.parquet", str(tmp_path / "days" / "**" / "*.parquet")):
        found = log(tmp_path, events=path)
        assert found.time.tolist() == whole.time.tolist()
        assert found.user.tolist() == whole.user.tolist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([7, None, 9], pa.int8()),
        pa.array([7, None, 9], pa.uint64()),
        pa.array(["x", None, "y"], pa.large_string()),
        pa.array(["x", None, "y"]).dictionary_encode(),
        pa.array([True, None, False]),
        pa.nulls(3),
    ],
    ids=lambda c: str(c.type),
)
def test_ids_of_every_type(tmp_path: Path, column: pa.Array) -> None:
    write(tmp_path, items={**ITEMS, "topic": column})
    by_id = dict(zip(ITEMS["item_id"], column.to_pylist(), strict=True))
    assert log(tmp_path).item_columns["topic"][:, 0].tolist() == ids(*(by_id[i] for i in (10, 20, 30)))


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(pa.dictionary(pa.int32(), pa.string()))],
    ids=str,
)
def test_lists_of_every_type(tmp_path: Path, kind: pa.DataType) -> None:
    lists = [["x", "y", "z"], [], None, ["y", None]]
    column = (
        pa.array(lists, pa.list_(pa.string())).cast(kind) if "dictionary" not in str(kind) else pa.array(lists, kind)
    )
    write(tmp_path, users={**USERS, "tags": column})
    found = log(tmp_path)
    tags = dict(zip(found.user_ids.tolist(), found.user_columns["tags"].tolist(), strict=True))
    assert [tags[raw_id(u)] for u in "cabd"] == [ids("x", "y"), ids(None, None), ids(None, None), ids("y", None)]


def test_lists_of_one_length_and_single_ids_count_as_lists(tmp_path: Path) -> None:
    pairs = [[1, 2], [3, 4], [5, 6], [7, 8]]
    write(tmp_path, users={**USERS, "tags": pa.array(pairs, pa.list_(pa.int64(), 2))})
    found = log(tmp_path)
    assert {tuple(row) for row in found.user_columns["tags"].tolist()} == {tuple(pair) for pair in pairs}
    write(tmp_path, users={**USERS, "tags": [1, 2, None, 4]})
    found = log(tmp_path)
    assert sorted(found.user_columns["tags"].tolist()) == [[MISSING, MISSING], [1, MISSING], [2, MISSING], [4, MISSING]]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_timestamps_are_moments(tmp_path: Path, unit: str, zone: str | None) -> None:
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    odd = scale - 1  # the part of a second is cut off
    times = pa.array([t * scale + odd for t in EVENTS["time"]], pa.timestamp(unit, zone))
    write(tmp_path, events={**EVENTS, "time": times})
    assert log(tmp_path).time.tolist() == sorted(EVENTS["time"])


def test_dates_are_their_first_second(tmp_path: Path) -> None:
    days = [datetime.date(2024, 1, day) for day in (5, 1, 2, 3, 4)]
    write(tmp_path, events={**EVENTS, "time": days})
    assert log(tmp_path).time.tolist() == [1_704_067_200 + 86_400 * day for day in range(5)]


def changed(table: dict[str, Any], column: str, row: int, value: Any) -> dict[str, Any]:
    return {**table, column: [value if i == row else v for i, v in enumerate(table[column])]}


def without(table: dict[str, Any], column: str) -> dict[str, Any]:
    return {name: values for name, values in table.items() if name != column}


UTC_TIMES = "unix seconds of 1970 to 2200, a timestamp or a date"
WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "no label",
        {"events": without(EVENTS, "bought")},
        "events.parquet: column 'bought' found 0 times, once needed; columns: user_id",
    ),
    ("no key", {"users": without(USERS, "user_id")}, "users.parquet: column 'user_id' found 0 times"),
    ("no feature", {"items": without(ITEMS, "price")}, "items.parquet: column 'price' found 0 times"),
    ("no field", {"items": without(ITEMS, "topic")}, "items.parquet: column 'topic' found 0 times"),
    ("no title", {"items": without(ITEMS, "name")}, "items.parquet: column 'name' found 0 times"),
    ("no history", {"events": without(EVENTS, "liked")}, "events.parquet: column 'liked' found 0 times"),
    (
        "null user",
        {"events": changed(EVENTS, "user_id", 3, None)},
        "column user_id, row 3: null found, an id other than -1, which stands for none,",
    ),
    (
        "-1 as item",
        {"events": changed(EVENTS, "item_id", 1, -1)},
        "events.parquet: column item_id, row 1: -1 found, an id",
    ),
    (
        "null user key",
        {"users": changed(USERS, "user_id", 0, None)},
        "users.parquet: column user_id, row 0: null found",
    ),
    (
        "float key",
        {"events": {**EVENTS, "item_id": [1.0, 2.0, 3.0, 4.0, 5.0]}},
        "column item_id: type double found, an integer, text or boolean",
    ),
    (
        "user twice",
        {"users": changed(USERS, "user_id", 2, "c")},
        "users.parquet: column user_id, row 2: 'c' found a second time; one row for each user is",
    ),
    (
        "item twice",
        {"items": changed(ITEMS, "item_id", 2, 30)},
        "items.parquet: column item_id, row 2: 30 found a second time; one row for each item is",
    ),
    (
        "unknown user",
        {"events": changed(EVENTS, "user_id", 4, "e")},
        "events.parquet: column user_id, row 4: 'e' found, which is no user of",
    ),
    (
        "unknown item",
        {"events": changed(EVENTS, "item_id", 0, 11)},
        "events.parquet: column item_id, row 0: 11 found, which is no item of",
    ),
    (
        "no user at all",
        {"users": {n: pa.array([], pa.array(v).type) for n, v in USERS.items()}},
        "row 0: 'b' found, which is no user of",
    ),
    (
        "label 2",
        {"events": {**EVENTS, "bought": [0, 1, 2, 0, 1]}},
        "events.parquet: column bought, row 2: 2 found, 0, 1, true or false allowed",
    ),
    (
        "label half",
        {"events": {**EVENTS, "bought": [0, 1, 0.5, 0, 0.1]}},
        "column bought, row 2: 0.5 found (and in 1 more rows), 0, 1, true or false allowed",
    ),
    (
        "label null",
        {"events": changed(EVENTS, "bought", 0, None)},
        "events.parquet: column bought, row 0: null found, 0, 1, true or false allowed",
    ),
    (
        "label text",
        {"events": {**EVENTS, "bought": list("01010")}},
        "events.parquet: column bought: type string found, a number or a boolean allowed",
    ),
    (
        "history null",
        {"events": changed(EVENTS, "liked", 2, None)},
        "events.parquet: column liked, row 2: null found, 0, 1",
    ),
    (
        "time null",
        {"events": changed(EVENTS, "time", 2, None)},
        f"events.parquet: column time, row 2: null found, {UTC_TIMES} allowed",
    ),
    (
        "milliseconds",
        {"events": changed(EVENTS, "time", 0, HOUR * 1000)},
        f"column time, row 0: {HOUR * 1000} found, {UTC_TIMES} allowed",
    ),
    ("before 1970", {"events": changed(EVENTS, "time", 4, -5)}, f"column time, row 4: -5 found, {UTC_TIMES}"),
    (
        "time as text",
        {"events": {**EVENTS, "time": ["today"] * 5}},
        f"events.parquet: column time: type string found, {UTC_TIMES} allowed",
    ),
    ("time as float", {"events": {**EVENTS, "time": [0.5] * 5}}, "events.parquet: column time: type double found"),
    (
        "null timestamp",
        {"events": {**EVENTS, "time": pa.array([None, *EVENTS["time"][1:]], pa.timestamp("s"))}},
        "column time, row 0: null found",
    ),
    (
        "dense null",
        {"users": changed(USERS, "age", 1, None)},
        "users.parquet: column age, row 1: null found, a finite number",
    ),
    (
        "dense nan",
        {"events": changed(EVENTS, "spent", 1, float("nan"))},
        "events.parquet: column spent, row 1: nan found, a finite number",
    ),
    (
        "dense huge",
        {"events": changed(EVENTS, "spent", 1, 1e39)},
        "events.parquet: column spent, row 1: 1e+39 found, a finite number",
    ),
    (
        "dense text",
        {"items": {**ITEMS, "price": ["1", "2", "3"]}},
        "items.parquet: column price: type string found, a number",
    ),
    (
        "value infinite",
        {"items": changed(ITEMS, "bid", 0, float("inf"))},
        "column bid, row 0: inf found, a number that fits float32, or null",
    ),
    (
        "id float",
        {"items": {**ITEMS, "topic": [0.5, 1.5, None]}},
        "items.parquet: column topic: type double found, an integer",
    ),
    ("id list", {"items": {**ITEMS, "topic": [["a"], ["b"], []]}}, "items.parquet: column topic: type list"),
    (
        "id huge",
        {"items": {**ITEMS, "topic": pa.array([2**63, 1, 2], pa.uint64())}},
        f"items.parquet: column topic: {2**63} found, at most {2**63 - 1} allowed",
    ),
    (
        "ids of floats",
        {"users": {**USERS, "tags": [[0.5], [], [], []]}},
        "users.parquet: column tags: type list<element: double> found",
    ),
    (
        "no event",
        {"events": {n: pa.array(v).slice(0, 0) for n, v in EVENTS.items()}},
        "events.parquet: no row found; each is an example",
    ),
    ("no file", {"events": None}, "data.events: there is no file"),
]


@pytest.mark.parametrize(("tables", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_is_wrong_is_named(tmp_path: Path, tables: dict[str, Any], message: str) -> None:
    write(tmp_path, **tables)
    with pytest.raises(DataError) as caught:
        log(tmp_path)
    assert message in str(caught.value)


def test_a_row_is_named_in_its_own_file(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "days").mkdir()
    pq.write_table(pa.table(EVENTS), tmp_path / "days" / "1.parquet")
    pq.write_table(pa.table(changed(EVENTS, "user_id", 3, None)), tmp_path / "days" / "2.parquet")
    with pytest.raises(DataError, match=r"days/2\.parquet: column user_id, row 3: null found"):
        log(tmp_path, events="days")
    pq.write_table(pa.table({**EVENTS, "item_id": list("vwxyz")}), tmp_path / "days" / "2.parquet")
    with pytest.raises(DataError, match=r"1\.parquet and 1 more: columns of different types: .*item_id"):
        log(tmp_path, events="days")
    pq.write_table(pa.table(without(EVENTS, "place")), tmp_path / "days" / "2.parquet")
    with pytest.raises(DataError, match=r"days/2\.parquet: column 'place' found 0 times"):
        log(tmp_path, events="days")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "age",
            99.0,
            "column age, row 3: 99.0 found, 10.0 in another event of user 'a'; a feature of side user must not "
            "change: give `data.users` or declare it with `side: context`",
        ),
        ("tags", ["q"], r"column tags, row 3: \['q'\] found, \[\] in another event of user 'a'"),
    ],
)
def test_a_users_feature_that_changes_among_events(tmp_path: Path, column: str, value: Any, message: str) -> None:
    write(tmp_path, events=changed(denormalised(), column, 3, value))
    with pytest.raises(DataError, match=message):
        log(tmp_path, users=None, items=None)


def test_an_items_feature_that_changes_among_events(tmp_path: Path) -> None:
    write(tmp_path, events=changed(denormalised(), "bid", 2, 0.5))
    with pytest.raises(
        DataError, match=r"column bid, row 2: 0\.5 found, None in another event of item 10; .*data\.items`$"
    ):
        log(tmp_path, users=None, items=None)


@pytest.mark.parametrize("content", [b"", b"PAR1 and more", b"\x00" * 100])
def test_a_file_that_is_no_parquet(tmp_path: Path, content: bytes) -> None:
    write(tmp_path)
    (tmp_path / "users.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"users\.parquet: cannot be read as Parquet: "):
        log(tmp_path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.parquet", "data.users: there is no file .*none.parquet"),
        ("none/*.parquet", "data.users: there is no file"),
        ("empty", "data.users: the folder .*empty holds no file"),
        ("**x/[.parquet", "data.users: .* cannot be looked for: Invalid pattern"),
        ("x" * 300, "data.users: .* cannot be looked for: .*too long"),
    ],
)
def test_a_path_that_leads_nowhere(tmp_path: Path, path: str, message: str) -> None:
    write(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=message):
        log(tmp_path, users=path)


def test_only_columns_that_are_named_are_read(tmp_path: Path) -> None:
    """A column of a type that nothing here understands does no harm."""
    write(tmp_path, events={**EVENTS, "blob": [{"a": [1]}] * 5})
    assert len(log(tmp_path)) == 5


def test_a_column_of_another_name(tmp_path: Path) -> None:
    users = {**without(USERS, "age"), "Age in years": USERS["age"]}
    write(tmp_path, users=users)
    named = log(tmp_path, columns={"age": "Age in years", "item": "item_id"})
    write(tmp_path)
    assert named.user_dense["age"].tolist() == log(tmp_path).user_dense["age"].tolist()


@pytest.mark.parametrize("value", [0, 1])
def test_a_label_of_one_class_is_refused(tmp_path: Path, value: int) -> None:
    rows = 200
    events = {name: (values * rows)[:rows] for name, values in EVENTS.items()}
    events |= {"time": list(range(HOUR, HOUR + rows)), "bought": [1 - value] * (rows // 2) + [value] * (rows // 2)}
    write(tmp_path, events=events)
    with pytest.raises(DataError, match=rf"label bought: all 20 examples of the validation part are {value}; both"):
        prepare(recipe(tmp_path), tmp_path / "out", tmp_path)
