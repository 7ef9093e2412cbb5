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
