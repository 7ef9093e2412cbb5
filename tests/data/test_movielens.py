"""The log against counts and rows read off the published files."""

from pathlib import Path

import numpy as np
import pytest

from triton_ads.data import movielens
from triton_ads.data.download import DataError
from triton_ads.data.log import Log
from triton_ads.features.ids import MISSING, raw_id


def test_counts(log: Log) -> None:
    assert (len(log), len(log.user_ids), len(log.item_ids)) == (100_000, 943, 1_682)
    # Published rating counts: 34,174 fours and 21,201 fives.
    assert log.labels["cvr"].sum() == 34_174 + 21_201
    assert log.labels["dcvr"].sum() == 21_201
    assert log.sequences["conversions"].sum() == 34_174 + 21_201
    assert (int(log.time[0]), int(log.time[-1])) == (874_724_710, 893_286_638)
    assert np.all(np.diff(log.time) >= 0)


def test_one_event(log: Log) -> None:
    """The file's first row: user 196, film 242, rating 3, at 881250949 = Thursday 4 December 1997, 15:55:49 UTC."""
    (i,) = np.flatnonzero((log.user_ids[log.user] == 196) & (log.item_ids[log.item] == 242))
    assert (log.time[i], log.labels["cvr"][i], log.labels["dcvr"][i]) == (881_250_949, 0, 0)
    assert {name: column[i].tolist() for name, column in log.context_columns.items()} == {
        "hour": [15],
        "weekday": [3],
        "daypart": [raw_id("afternoon")],
    }
    assert {name: int(field[i]) for name, field in log.event_fields.items()} == {
        "item_id": 242,
        "genre": raw_id("Comedy"),
        "action": 3,
    }


def test_a_user_and_items(log: Log) -> None:
    assert {name: column[0].tolist() for name, column in log.user_columns.items()} == {
        "user_id": [1],
        "age_band": [18],  # 24 years
        "gender": [raw_id("M")],
        "occupation": [raw_id("technician")],
        "zip_code": [raw_id("85711")],
    }
    genres = [raw_id(g) for g in ("Animation", "Children's", "Comedy")]
    assert {name: column[0].tolist() for name, column in log.item_columns.items()} == {
        "item_id": [1],
        "genres": genres + [MISSING] * 3,
        "year": [1995],
    }
    assert log.titles[1] == "Toy Story"
    # Film 267 has neither title, year nor genre; 1412 has "V" for a year.
    assert log.item_columns["genres"][266].tolist() == [MISSING] * 6
    assert log.item_columns["year"][[266, 1411], 0].tolist() == [MISSING, MISSING]


def test_age_bands_are_those_of_movielens_1m(log: Log) -> None:
    assert sorted(set(log.user_columns["age_band"][:, 0].tolist())) == [1, 18, 25, 35, 45, 50, 56]


def test_another_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.whl"
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"some\.whl: .*ml-100k\.inter cannot be read"):
        movielens.read(path)
