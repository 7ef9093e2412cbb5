"""Nothing that an example shows was unknown at its time: brute-force recomputation from the published file's rows."""

import csv
import io
import math
import zipfile
from bisect import bisect_right
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from triton_ads.data import Examples
from triton_ads.data.split import Part
from triton_ads.features.ids import raw_id
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe

#: (user, item, rating, time) of one row of the file
Event = tuple[int, int, int, int]


@pytest.fixture(scope="module")
def events(wheel: Path) -> list[Event]:
    text = zipfile.ZipFile(wheel).read("recbole/dataset_example/ml-100k/ml-100k.inter").decode()
    rows = csv.reader(io.StringIO(text), delimiter="\t")
    next(rows)
    return sorted(((int(u), int(i), int(r), int(t)) for u, i, r, t in rows), key=lambda e: (e[3], e[0], e[1]))


@pytest.fixture(scope="module")
def genres(wheel: Path) -> dict[int, list[str]]:
    text = zipfile.ZipFile(wheel).read("recbole/dataset_example/ml-100k/ml-100k.item").decode()
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return {int(row[0]): [g for g in row[3].split() if g != "unknown"] for row in rows}


@pytest.fixture(scope="module")
def tables(recipe: Recipe, prepared: Path) -> Tables:
    return Tables.load(recipe, prepared / "vocabularies")


def row(tables: Tables, table: str, value: int | str | None) -> int:
    return 0 if value is None else int(tables.rows(table, np.array([raw_id(value)]))[0])


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_random_examples_by_brute_force(
    part: Part,
    recipe: Recipe,
    examples: Examples,
    events: list[Event],
    genres: dict[int, list[str]],
    tables: Tables,
) -> None:
    random = np.random.default_rng(7)
    positions = random.choice(examples.part(part), size=16, replace=False)
    batch = examples.batch(positions)
    for m, position in enumerate(positions.tolist()):
        user, item, rating, now = events[position]
        assert batch.labels[m].tolist() == [float(rating >= 4), float(rating == 5)]
        assert batch.inputs["user_ids"][m, 0] == row(tables, "user", user)
        assert batch.inputs["item_ids"][m, 0] == row(tables, "item", item)

        at = datetime.fromtimestamp(now, UTC)
        daypart = ("night", "morning", "afternoon", "evening")[at.hour // 6]
        context = [row(tables, "hour", at.hour), row(tables, "weekday", at.weekday()), row(tables, "daypart", daypart)]
        assert batch.inputs["user_ids"][m, -3:].tolist() == context

        past = [e for e in events if e[3] < now]
        mine = [e for e in past if e[0] == user]
        scaled = [math.log1p(n) / math.log1p(1000) for n in (len(mine), sum(e[1] == item for e in past))]
        found = [batch.inputs["user_dense"][m, 0], batch.inputs["item_dense"][m, 0]]
        assert found == pytest.approx(scaled, abs=1e-6)  # float32

        expected: list[int] = []
        for sequence in ("recent", "space", "conversions"):
            held = [e for e in mine if sequence != "conversions" or e[2] >= 4]
            latest = sorted(held, key=lambda e: (e[3], e[1]), reverse=True)[:50]
            rows = []
            for _, seen, action, time in latest:
                first_genre = (genres[seen] or [None])[0]
                what = row(tables, "genre", first_genre) if sequence == "space" else row(tables, "item", seen)
                edges = [60, 600, 3600, 21_600, 86_400, 604_800, 2_592_000, 7_776_000]
                gap = row(tables, "gap", bisect_right(edges, now - time))
                rows += [what, row(tables, "action", action), gap]
            expected += rows + [0] * (150 - len(rows))
        assert batch.inputs["sequence_ids"][m].tolist() == expected


def test_every_window_ends_strictly_before_its_example_and_starts_with_its_user(examples: Examples) -> None:
    """All examples: the last event inside the window is earlier, the one after it is not, or is another user's."""
    a = examples.arrays
    for sequence in ("recent", "space", "conversions"):
        first, end, time = a[f"{sequence}.first"], a[f"{sequence}.end"], a[f"{sequence}.time"]
        some = end > first
        assert some.mean() > 0.9
        assert np.all(time[end[some] - 1] < a["time"][some])
        # `first` is where the user's events start, the same for all examples of a user.
        starts = {user: set(first[a["user"] == user].tolist()) for user in range(0, 943, 97)}
        assert all(len(found) == 1 for found in starts.values())
        last_of_user = np.zeros(943, dtype=np.int64)
        np.maximum.at(last_of_user, a["user"], end)
        inside = end < last_of_user[a["user"]]
        assert np.all(time[end[inside]] >= a["time"][inside])


def test_no_later_event_is_in_an_earlier_part(examples: Examples) -> None:
    a = examples.arrays
    train, validation, test = (a["time"][examples.part(p)] for p in get_args(Part))
    assert train.max() < validation.min() and validation.max() < test.min()
    # Nor does a training example's history reach into the validation part.
    positions = examples.part("train")
    for sequence in ("recent", "space", "conversions"):
        end = a[f"{sequence}.end"][positions]
        some = end > a[f"{sequence}.first"][positions]
        assert a[f"{sequence}.time"][end[some] - 1].max() < validation.min()


def test_vocabularies_know_the_training_part_only(
    recipe: Recipe, examples: Examples, events: list[Event], tables: Tables
) -> None:
    n = len(examples.part("train"))
    for table, column in (("user", 0), ("item", 1)):
        seen = {event[column] for event in events[:n]}
        later = {event[column] for event in events[n:]} - seen
        assert len(later) > 10
        assert tables.table_rows[table] == 2 + len(seen)
        assert set(tables.rows(table, np.array(sorted(seen))).tolist()) == set(range(2, 2 + len(seen)))
        assert set(tables.rows(table, np.array(sorted(later))).tolist()) == {1}


def test_unseen_users_of_the_test_part_are_oov(examples: Examples) -> None:
    """86 % of the last tenth are users that the first four fifths do not know."""
    a = examples.arrays
    share = {part: float((a["user_rows"][a["user"][examples.part(part)], 0] == 1).mean()) for part in ("train", "test")}
    assert share["train"] == 0
    assert share["test"] == pytest.approx(0.8582, abs=5e-5)
