"""The rates that are tried: rising, then closer; and how the time of a test is spent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.loadtest.schedule import DurationError, Schedule
from triton_ads.loadtest.search import DESCENTS, GROWTH, REFINEMENTS, RateSearch


def tried(first: float, capacity: float) -> tuple[list[float], float | None]:
    search, rates = RateSearch(first), []
    while search.rate is not None:
        rates.append(search.rate)
        search.record(search.rate <= capacity)
    return rates, search.highest


def test_it_rises_and_then_goes_between():
    rates, highest = tried(100, capacity=150)
    assert [round(rate) for rate in rates] == [100, 130, 169, 148, 158]
    assert round(highest or 0) == 148


def test_it_descends_where_the_first_rate_fails():
    rates, highest = tried(100, capacity=30)
    assert [round(rate, 1) for rate in rates] == [100, 50, 25, 35.4, 29.7]
    assert round(highest or 0, 1) == 29.7


def test_a_server_that_never_holds_is_given_up():
    rates, highest = tried(64, capacity=0)
    assert rates == [64 / 2**i for i in range(DESCENTS + 1)]
    assert highest is None


@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4))
def test_what_is_found_holds_and_is_close_to_the_capacity(first, capacity):
    rates, highest = tried(first, capacity)
    if highest is None:
        assert capacity < first / 2**DESCENTS
        return
    assert highest <= capacity
    # The last bracket is the first one, split twice: a rising step, or a halving.
    bracket = GROWTH if first <= capacity else 2.0
    assert capacity <= highest * bracket ** (0.5**REFINEMENTS) * (1 + 1e-9)
    assert rates.count(highest) == 1


def test_a_search_that_is_over_takes_no_more():
    search = RateSearch(1.0)
    for holds in (True, False, False, False):
        search.record(holds)
    with pytest.raises(RuntimeError, match="the search is over"):
        search.record(True)


@pytest.mark.parametrize("seconds", [20, 60, 180, 3600])
def test_the_time_is_enough_for_the_search_and_for_the_load_that_is_held(seconds):
    schedule = Schedule.of(seconds)
    assert schedule.warm_up_s + schedule.rising_s + schedule.chunk_s <= seconds
    assert 8 * schedule.step_s <= schedule.rising_s  # steps that a usual search takes


@pytest.mark.parametrize("seconds", [0, 19.9, -5, 4000, float("nan")])
def test_a_duration_that_is_not_allowed_is_told(seconds):
    with pytest.raises(DurationError, match=r"duration: .* found, 20 to 3600 s allowed"):
        Schedule.of(seconds)
