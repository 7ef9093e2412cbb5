"""Whether an outcome holds, and what went wrong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.loadtest.judgement import GIVEN_UP, LATE, QUEUE_FULL, UNSENT, cause_of, causes, judged_ms, meets, merged
from triton_ads.loadtest.load import Outcome, percentile

REFUSED = 'HTTP 500: {"error":"in ensemble \'rank\', deadline exceeded: it passed 0.4 ms ago"}'


def outcome(ms: list[float], failures: list[str] | None = None, answered: int | None = None) -> Outcome:
    failures = failures if failures is not None else [""] * len(ms)
    well = failures.count("")
    return Outcome(
        seconds=2.0,
        ms=ms,
        answered=well if answered is None else answered,
        errors=len(ms) - well,
        first_error="",
        served=len(ms),
        busy=0.25,
        core_ms=2.0,
        due_s=[2.0 * i / max(1, len(ms)) for i in range(len(ms))],
        failures=failures,
        candidates=[10] * len(ms),
        served_well=well,
        served_candidates=10 * well,
    )


def test_one_in_a_hundred_may_fail_and_two_may_not():
    assert meets(outcome([5.0] * 100, [REFUSED] + [""] * 99), 100)
    assert not meets(outcome([5.0] * 100, [REFUSED] * 2 + [""] * 98), 100)
    assert meets(outcome([101.0] + [5.0] * 99), 100)
    assert not meets(outcome([101.0] * 2 + [5.0] * 98), 100)


def test_more_may_be_asked_for_than_one_in_a_hundred():
    one_in_a_thousand = outcome([101.0] + [5.0] * 999)
    assert meets(one_in_a_thousand, 100, share=0.999)
    assert not meets(one_in_a_thousand, 100, share=0.9997)
    assert meets(outcome([5.0] * 1000), 100, share=0.9997)


def test_a_fast_refusal_is_no_fast_answer():
    fast = outcome([1.0] * 50, [REFUSED] * 25 + [""] * 25)
    assert percentile(judged_ms(fast), 0.5) == 1.0
    assert percentile(judged_ms(fast), 0.51) == math.inf


def test_a_server_that_does_not_keep_up_does_not_hold():
    assert not meets(outcome([5.0] * 100, answered=90), 100)
    assert not meets(outcome([]), 100)


def test_causes_are_counted_the_most_frequent_first():
    bad = ["never sent", REFUSED, REFUSED, REFUSED.replace("0.4", "7.0"), "", ""]
    assert causes(outcome([200.0, 1, 1, 1, 150.0, 5.0], bad), 100) == {GIVEN_UP: 3, UNSENT: 1, LATE: 1}


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (
            'HTTP 503: {"error":"inference request for model \'router\' exceeds maximum queue size"}',
            QUEUE_FULL,
        ),
        ("HTTP 502: <html>bad gateway 17</html>", "HTTP 502: <html>bad gateway #</html>"),
        ('HTTP 400: {"error":"insisted_tier: \'nope\' found"}', "HTTP 400: insisted_tier: 'nope' found"),
        ('HTTP 500: {"error":"cut of', 'HTTP 500: {"error":"cut of'),
    ],
)
def test_a_cause_is_what_the_server_says_without_its_numbers(failure, cause):
    assert cause_of(failure) == cause


@given(st.lists(st.lists(st.floats(0.1, 1e3), min_size=1, max_size=40), min_size=1, max_size=4))
def test_windows_that_follow_each_other_are_one(parts):
    whole = merged([outcome(ms) for ms in parts])
    together = [ms for part in parts for ms in part]
    assert whole.seconds == 2.0 * len(parts)
    assert whole.rate == pytest.approx(len(together) / whole.seconds)
    for q in (0.5, 0.95, 0.99):
        assert whole.percentile(q) == np.quantile(together, q, method="inverted_cdf")
    assert np.all(np.diff(whole.due_s) > 0)
    assert whole.core_ms * whole.served == pytest.approx(2.0 * len(together))
    assert whole.served_candidates == 10 * len(together)
