import pytest

from triton_ads.serving.budget import Budget


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_it_starts_full_and_never_holds_more_than_a_second(clock):
    budget = Budget(1000, clock)
    assert budget.left() == 1000
    clock.now += 60
    assert budget.left() == 1000


def test_it_fills_at_its_rate(clock):
    budget = Budget(1000, clock)
    budget.spend(1000)
    assert budget.left() == 0
    clock.now += 0.25
    assert budget.left() == pytest.approx(250)


def test_a_debt_is_at_most_a_second(clock):
    budget = Budget(1000, clock)
    budget.spend(50_000)
    assert budget.left() == -1000
    clock.now += 1.5
    assert budget.left() == pytest.approx(500)


def test_nothing_a_second_is_nothing(clock):
    budget = Budget(0, clock)
    clock.now += 60
    assert budget.left() == 0


def test_over_a_long_time_no_more_than_the_rate_is_spent(clock):
    budget, spent = Budget(1000, clock), 0
    for _ in range(10_000):
        clock.now += 0.01
        if budget.left() >= 300:
            budget.spend(300)
            spent += 300
    assert 1000 * 100 - 300 <= spent <= 1000 * 101


def test_a_lower_limit_takes_what_was_saved_up_and_fills_more_slowly(clock):
    budget = Budget(1000, clock)
    budget.limit(400)
    assert (budget.left(), budget.fill(), budget.per_second) == (400, 1.0, 400)
    budget.spend(600)
    assert budget.fill() == -0.5
    clock.now += 1
    assert budget.left() == 200
    budget.limit(1000)
    assert (budget.left(), budget.fill()) == (200, 0.2)


def test_a_limit_counts_from_now_on(clock):
    budget = Budget(1000, clock)
    budget.spend(1000)
    clock.now += 0.5
    budget.limit(100)
    assert budget.left() == 100  # 500 had flowed in, of which a second's worth may be kept
    budget.limit(0)
    assert (budget.left(), budget.fill()) == (0, 0)
