"""Counts and histories of the past against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.data.past import History, earlier, gap_bucket, log_scaled

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8)), max_size=40)


@given(EVENTS)
def test_earlier_equals_a_loop(events: list[tuple[int, int]]) -> None:
    events = sorted(events, key=lambda e: e[1])
    group = np.array([e[0] for e in events], dtype=np.int32)
    time = np.array([e[1] for e in events], dtype=np.int64)
    past = earlier(group, time)
    for i, (g, t) in enumerate(events):
        found = past.order[past.first[i] : past.end[i]].tolist()
        assert found == [j for j, (h, s) in enumerate(events) if h == g and s < t]
        assert past.count[i] == len(found)


def test_events_of_the_same_second_do_not_count() -> None:
    past = earlier(np.array([0, 0, 0, 1], dtype=np.int32), np.array([5, 5, 6, 6]))
    assert past.count.tolist() == [0, 0, 2, 0]


def test_history_worked() -> None:
    # User 0 has events at 100, 200, 5000; user 1 one at 50. The second field is the gap; its rows are bucket + 2.
    history = History(
        rows_EF=np.array([[11, 0], [12, 0], [13, 0], [21, 0]], dtype=np.int32),
        time_E=np.array([100, 200, 5000, 50]),
        gap_field=1,
        gap_rows=np.arange(2, 11),
    )
    first, end = np.array([0, 0, 3, 3], dtype=np.int32), np.array([3, 2, 4, 3], dtype=np.int32)
    now = np.array([5030, 210, 50 + 86400, 60])
    assert history.latest(first, end, now, 2).tolist() == [
        [[13, 2], [12, 5]],  # 30 s, below a minute; 4830 s, above an hour
        [[12, 2], [11, 3]],  # 10 s; 110 s, above a minute
        [[21, 7], [0, 0]],  # a day exactly is in the bucket above it
        [[0, 0], [0, 0]],
    ]


def test_a_sequence_without_events_is_all_padding() -> None:
    history = History(np.empty((0, 2), np.int32), np.empty(0, np.int64), None, np.empty(0, np.int64))
    nothing = np.zeros(3, dtype=np.int32)
    assert history.latest(nothing, nothing, np.array([1, 2, 3]), 4).tolist() == np.zeros((3, 4, 2)).tolist()


def test_gap_buckets_at_their_edges() -> None:
    seconds = np.array([0, 59, 60, 599, 600, 3599, 3600, 21_599, 21_600, 86_399, 86_400, 604_799, 604_800])
    assert gap_bucket(seconds).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    assert gap_bucket(np.array([2_591_999, 2_592_000, 7_775_999, 7_776_000])).tolist() == [6, 7, 7, 8]


def test_log_scaled() -> None:
    assert log_scaled(np.array([0, 1, 1000])).tolist() == pytest.approx([0, np.log(2) / np.log(1001), 1])
