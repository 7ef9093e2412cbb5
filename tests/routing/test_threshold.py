"""Which requests a budget is spent on: worked solutions, and streams of traffic by a clock of their own."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.routing.threshold import LARGEST, Threshold, solve
from triton_ads.serving.budget import Budget


@pytest.mark.parametrize(
    ("values", "costs", "budget", "expected"),
    [
        ([3, 1, 2], [10, 10, 10], 30, (0, 1)),  # all of them
        ([3, 1, 2], [10, 10, 10], 20, (1, 0)),  # just the best two
        ([3, 1, 2], [10, 10, 10], 25, (1, 0.5)),  # and half of the third's cost
        ([3, 1, 2], [10, 10, 10], 5, (3, 0.5)),
        ([3, 1, 2], [10, 10, 10], 0, (3, 0)),
        ([3, 1, 2, 2, 2, 2], [10, 10, 10, 10, 10, 10], 30, (2, 0.5)),  # two of the four equal ones
        ([3, 3, 3], [5, 10, 5], 10, (3, 0.5)),
        ([2, 1], [100, 10], 10, (2, 0.1)),
        ([], [], 10, (0, 1)),
    ],
)
def test_worked(values: list[float], costs: list[float], budget: float, expected: tuple[float, float]) -> None:
    assert solve(np.array(values, float), np.array(costs, float), budget) == expected


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 50)), min_size=1, max_size=30),
    st.integers(0, 1000),
)
def test_what_is_above_and_the_share_of_what_is_at_cost_the_budget(
    requests: list[tuple[int, int]], budget: int
) -> None:
    value_n, cost_n = (np.array(column, float) for column in zip(*requests, strict=True))
    value, share = solve(value_n, cost_n, budget)
    spent = cost_n[value_n > value].sum() + share * cost_n[value_n == value].sum()
    assert spent == pytest.approx(min(budget, cost_n.sum()))


@dataclass
class Traffic:
    """Requests over time behind a threshold and a budget, as the router asks them."""

    per_second: float
    now: float = 1e6
    spent: float = 0.0
    asked: int = 0
    taken: list[tuple[float, float]] = field(default_factory=list)  # when, value
    values: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = Budget(self.per_second, lambda: self.now)
        self.threshold = Threshold(lambda: self.now)

    def request(self, value: float, cost: float) -> bool:
        self.asked += 1
        wanted = self.threshold.admits(value, cost, self.budget.per_second, self.budget.fill())
        if not wanted or self.budget.left() < cost:
            return False
        self.budget.spend(cost)
        self.spent += cost
        self.taken.append((self.now, value))
        return True

    def run(self, seconds: float, rate: float, random: np.random.Generator, *, shift: float = 0.0) -> None:
        """Poisson arrivals of log-normal sizes; values are normal around `shift`."""
        end = self.now + seconds
        while self.now < end:
            self.now += random.exponential(1 / rate)
            value, cost = float(random.normal(shift + 1, 1)), float(np.ceil(np.exp(random.normal(5, 0.5))))
            self.values.append(value)
            self.request(value, cost)


def test_the_budget_is_met_and_the_best_get_it() -> None:
    """100 requests a second of 168 candidates each in the mean would cost 16,800; the budget is 4,000."""
    traffic, random = Traffic(4000), np.random.default_rng(1)
    traffic.run(15, 100, random)  # the window fills
    traffic.spent, traffic.taken, traffic.values = 0.0, [], []
    traffic.run(120, 100, random)
    assert traffic.spent / 120 == pytest.approx(4000, rel=0.03)
    # The best 24 % by value would be those above 1.71: what was taken is nearly that.
    best = np.sort(traffic.values)[::-1][: len(traffic.taken)]
    assert np.mean([v for _, v in traffic.taken]) > 0.97 * best.mean()


def test_no_thrash() -> None:
    """Steady traffic has a steady threshold, and spends its budget in every second, not in turns."""
    traffic, random = Traffic(4000), np.random.default_rng(2)
    traffic.run(15, 100, random)
    thresholds, spent = [], []
    for _ in range(60):
        before = traffic.spent
        traffic.run(1, 100, random)
        thresholds.append(traffic.threshold.value)
        spent.append(traffic.spent - before)
    assert np.std(thresholds) < 0.15  # values have a spread of 1
    # A second's cost is a sum of about 24 requests of 168 +- 90: by chance alone it is off by 0.23 of its mean.
    assert 0.1 < np.std(spent) / np.mean(spent) < 0.35
    assert np.min(spent) > 0


def test_a_change_of_traffic_is_followed() -> None:
    traffic, random = Traffic(4000), np.random.default_rng(3)
    traffic.run(15, 100, random)
    calm = traffic.threshold.value
    traffic.run(20, 300, random)
    assert traffic.threshold.value > calm + 0.5
    before = traffic.spent
    traffic.run(30, 300, random)
    assert (traffic.spent - before) / 30 == pytest.approx(4000, rel=0.05)
    traffic.run(20, 10, random)  # 1,680 a second: less than the budget
    assert traffic.threshold.value == 0.0


def test_every_gain_is_taken_where_the_budget_pays_for_all_and_no_loss_ever() -> None:
    traffic, random = Traffic(1e6), np.random.default_rng(4)
    traffic.run(20, 50, random)
    assert len(traffic.taken) == sum(value > 0 for value in traffic.values)
    assert min(value for _, value in traffic.taken) > 0


def test_equal_requests_get_an_even_share() -> None:
    """All alike, 100 a second of 100 candidates: a budget of 2,500 takes one in four, spread out."""
    traffic = Traffic(2500)
    chosen = []
    for i in range(6000):
        traffic.now += 0.01
        chosen.append(traffic.request(1.0, 100.0))
        assert traffic.asked == i + 1
    late = np.array(chosen[2000:])
    assert late.mean() == pytest.approx(0.25, abs=0.01)
    assert np.max(np.diff(np.flatnonzero(late))) <= 8  # no long waits between them


def test_without_a_budget_nobody_is_taken() -> None:
    traffic, random = Traffic(0), np.random.default_rng(5)
    traffic.run(5, 50, random)
    assert traffic.taken == []


def test_after_a_pause_the_first_request_is_taken() -> None:
    traffic, random = Traffic(4000), np.random.default_rng(6)
    traffic.run(15, 300, random)
    traffic.now += 3600
    assert traffic.request(0.01, 100)


def test_more_requests_than_are_kept_are_still_a_rate() -> None:
    traffic, random = Traffic(4000), np.random.default_rng(7)
    traffic.run(4 * LARGEST / 1000, 1000, random)
    traffic.spent = 0.0
    traffic.run(5, 1000, random)
    assert traffic.spent / 5 == pytest.approx(4000, rel=0.1)
