import itertools

from hypothesis import given
from hypothesis import strategies as st

from triton_ads.serving.pace import MARGIN, RUNS, Pace


def pace(each_us, group=0):
    found = Pace()
    found.ran(group, 10, 10 * each_us / MARGIN)
    return found


def test_the_example_of_the_module():
    assert pace(20_000).in_time(0, [20_000, 90_000, 30_000, 80_000, 70_000]) == [False, True, False, True, True]


def test_where_there_is_time_everybody_is_answered():
    assert Pace().in_time(0, [5, 1, 3]) == [True] * 3  # nothing is known yet
    assert Pace().in_time(0, []) == []
    assert pace(20_000).in_time(0, [60_000] * 3) == [True] * 3
    assert pace(20_000, group=1).in_time(0, [1] * 3) == [True] * 3  # another group's pace says nothing


def test_one_is_answered_always_so_that_a_better_pace_is_noticed():
    held_up = pace(10_000_000)
    assert held_up.in_time(0, [100, 300, 200]) == [False, True, False]
    for _ in range(RUNS // 2 + 1):
        held_up.ran(0, 1, 10)
    assert held_up.in_time(0, [100, 300, 200]) == [True] * 3


def test_one_run_that_was_held_up_changes_nothing():
    found = pace(100)
    found.ran(0, 1, 100)
    found.ran(0, 1, 50_000_000)
    assert found.in_time(0, [400] * 3) == [True] * 3


@given(st.lists(st.integers(1, 500), min_size=1, max_size=8), st.integers(1, 200))
def test_as_many_as_can_be_are_answered_and_all_of_them_in_time(left, each):
    answered = pace(each).in_time(0, left)
    chosen = [time for time, yes in zip(left, answered, strict=True) if yes]

    def fits(subset):
        return 1.0001 * min(subset) >= each * len(subset)  # the median is a float

    most = max((n for n in range(1, len(left) + 1) for s in itertools.combinations(left, n) if fits(s)), default=1)
    assert len(chosen) == most
    assert most == 1 or fits(chosen)
