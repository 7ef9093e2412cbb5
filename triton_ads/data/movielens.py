"""MovieLens-100k as a Log: a film stands for an ad.

Read from the archive of the `recbole` wheel, of which nothing is imported or installed. The data set is GroupLens';
its terms are printed when it is fetched, and it is never committed.

    F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets: History and Context.
    ACM Transactions on Interactive Intelligent Systems 5, 4, Article 19. https://doi.org/10.1145/2827872
"""

# Legend: n events, U users, I items, G genres of a film.

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.download import DataError, fetch_wheel
from triton_ads.data.log import Log
from triton_ads.features.ids import MISSING, raw_id
from triton_ads.recipe import Recipe

REQUIREMENT = "recbole==1.2.1"
WHEEL = "recbole-1.2.1-py3-none-any.whl"
SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
TERMS = """\
MovieLens-100k is a data set of GroupLens Research, University of Minnesota.
  - It may be used for research; commercial use needs permission of GroupLens.
  - It may not be redistributed without separate permission.
  - Nobody may state or imply that the University of Minnesota or GroupLens endorses what was made with it.
  - Publications acknowledge it by citing: F. Maxwell Harper and Joseph A. Konstan. 2015. The MovieLens Datasets:
    History and Context. ACM TiiS 5, 4, Article 19. https://doi.org/10.1145/2827872
  Full terms: https://files.grouplens.org/datasets/movielens/ml-100k-README.txt"""

#: Youngest age of a band; a band's raw id is that age (the bands of MovieLens-1M).
AGE_BANDS = (1, 18, 25, 35, 45, 50, 56)
#: Six hours each, from midnight UTC.
DAYPARTS = ("night", "morning", "afternoon", "evening")
CONVERSION_RATING = 4
DEEP_CONVERSION_RATING = 5


def read_log(recipe: Recipe, downloads: Path) -> Log:
    """The data set as `triton_ads.data.sources` asks for it: it is the same for every recipe."""
    return read(fetch(downloads))


def fetch(downloads: Path) -> Path:
    """The wheel that holds the data, fetched if needed; prints the terms of the data when it is.

    Raises:
        DataError: it cannot be fetched, or is another file than expected.
    """
    path, fetched = fetch_wheel(REQUIREMENT, WHEEL, SHA256, downloads)
    if fetched:
        print(TERMS, flush=True)
    return path


def read(wheel: Path) -> Log:
    """The log of all 100,000 ratings.

    Labels: `cvr`, rating 4 or 5; `dcvr`, rating 5.
    User columns: `user_id`, `gender`, `age_band`, `occupation`, `zip_code`. Context: `hour` (0 to 23), `weekday`
    (Monday 0), `daypart`, all of the event's time in UTC. Item: `item_id`, `genres` (all), `year`.
    Sequences: `recent` and `space`, all events; `conversions`, those of `cvr`. Event fields: `item_id`, `genre` (the
    film's first), `action` (the rating, 1 to 5). Texts: title, year and genres.
    """
    events = np.array(_table(wheel, "inter", ["user_id", "item_id", "rating", "timestamp"]), dtype=np.int64)
    users = sorted(_table(wheel, "user", ["user_id", "age", "gender", "occupation", "zip_code"]), key=_first)
    items = sorted(_table(wheel, "item", ["item_id", "movie_title", "release_year", "class"]), key=_first)
    user_ids = np.array([int(u[0]) for u in users], dtype=np.int64)
    item_ids = np.array([int(i[0]) for i in items], dtype=np.int64)
    # By time; ties by user and item, so that the order never depends on the file's.
    user_n, item_n, rating_n, time_n = events[np.lexsort((events[:, 1], events[:, 0], events[:, 3]))].T
    item = np.searchsorted(item_ids, item_n).astype(np.int32)
    genres_IG = _genres([i[3] for i in items])
    hour_n = time_n // 3600 % 24
    conversion_n = rating_n >= CONVERSION_RATING
    everything_n = np.ones(len(time_n), dtype=np.bool_)
    return Log(
        user_ids=user_ids,
        item_ids=item_ids,
        titles={int(i[0]): i[1] for i in items},
        time=time_n,
        user=np.searchsorted(user_ids, user_n).astype(np.int32),
        item=item,
        labels={
            "cvr": conversion_n.astype(np.float32),
            "dcvr": (rating_n >= DEEP_CONVERSION_RATING).astype(np.float32),
        },
        user_columns={
            "user_id": user_ids[:, None],
            "age_band": _age_band(np.array([int(u[1]) for u in users]))[:, None],
            "gender": _strings([u[2] for u in users])[:, None],
            "occupation": _strings([u[3] for u in users])[:, None],
            "zip_code": _strings([u[4] for u in users])[:, None],
        },
        item_columns={
            "item_id": item_ids[:, None],
            "genres": genres_IG,
            "year": _years([i[2] for i in items])[:, None],
        },
        context_columns={
            "hour": hour_n[:, None],
            # 1 January 1970 was a Thursday.
            "weekday": ((time_n // 86400 + 3) % 7)[:, None],
            "daypart": _strings(list(DAYPARTS))[hour_n // 6][:, None],
        },
        sequences={"recent": everything_n, "space": everything_n, "conversions": conversion_n},
        event_fields={"item_id": item_n, "genre": genres_IG[item, 0], "action": rating_n},
        texts={int(i[0]): " ".join(i[1:]) for i in items},
    )


def _table(wheel: Path, kind: str, columns: list[str]) -> list[list[str]]:
    """Rows of one of the data set's files; the header names each column with its type, `age:token`."""
    name = f"recbole/dataset_example/ml-100k/ml-100k.{kind}"
    try:
        with zipfile.ZipFile(wheel) as archive:
            lines = archive.read(name).decode().splitlines()
    except (OSError, zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise DataError(f"{wheel}: {name} cannot be read: {error}") from None
    found = [column.split(":")[0] for column in lines[0].split("\t")]
    if sorted(found) != sorted(columns):
        raise DataError(f"{wheel}: {name} has columns {found}, {columns} needed")
    order = [found.index(c) for c in columns]
    return [[cells[i] for i in order] for cells in (line.split("\t") for line in lines[1:])]


def _first(row: list[str]) -> int:
    return int(row[0])


def _strings(values: list[str]) -> NDArray[np.int64]:
    return np.array([raw_id(v) for v in values], dtype=np.int64)


def _age_band(age_U: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.array(AGE_BANDS, dtype=np.int64)[np.searchsorted(AGE_BANDS, age_U, side="right") - 1]


def _years(values: list[str]) -> NDArray[np.int64]:
    """Two films have no year: "V" and "unkonwn"."""
    return np.array([int(v) if v.isdigit() else MISSING for v in values], dtype=np.int64)


def _genres(values: list[str]) -> NDArray[np.int64]:
    """int64 [I, G]: the genres of every film in the file's (alphabetical) order; "unknown" is no value."""
    names = [[g for g in value.split() if g != "unknown"] for value in values]
    genres_IG = np.full((len(names), max(map(len, names))), MISSING, dtype=np.int64)
    for row, genres in zip(genres_IG, names, strict=True):
        row[: len(genres)] = _strings(genres)
    return genres_IG
