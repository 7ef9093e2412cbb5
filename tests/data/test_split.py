"""The split by global time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.data.download import DataError
from triton_ads.data.split import split_by_time
from triton_ads.recipe.data import MovieLens


def data(train: float = 0.5, validation: float = 0.25) -> MovieLens:
    return MovieLens(source="movielens-100k", train_fraction=train, validation_fraction=validation)


def test_worked() -> None:
    split = split_by_time(np.array([1, 2, 3, 4, 5, 6, 7, 8]), data())
    assert [split.range(p) for p in ("train", "validation", "test")] == [(0, 4), (4, 6), (6, 8)]


def test_a_cut_moves_back_to_the_first_event_of_its_second() -> None:
    split = split_by_time(np.array([1, 2, 3, 3, 3, 6, 6, 8]), data())
    assert [split.range(p) for p in ("train", "validation", "test")] == [(0, 2), (2, 5), (5, 8)]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60))
def test_parts_follow_each_other_in_time_or_the_split_is_refused(times: list[int]) -> None:
    time = np.array(sorted(times))
    try:
        split = split_by_time(time, data())
    except DataError:
        # Only where ties or too few examples leave a part empty.
        assert len(np.unique(time)) < 3 or max(np.unique(time, return_counts=True)[1]) > 1 or len(time) < 4
        return
    parts = [time[slice(*split.range(p))] for p in ("train", "validation", "test")]
    assert sum(map(len, parts)) == len(time)
    assert parts[0][-1] < parts[1][0] and parts[1][-1] < parts[2][0]


@pytest.mark.parametrize("time", [[], [1], [5, 5, 5, 5]])
def test_an_empty_part_is_refused(time: list[int]) -> None:
    with pytest.raises(DataError, match="a part is empty"):
        split_by_time(np.array(time, dtype=np.int64), data())
