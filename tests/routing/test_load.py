"""How the budget follows the load, by a clock of its own."""

import itertools

import pytest

from triton_ads.routing.load import DECREASE, INCREASE, LOWEST, PERIOD_SECONDS, LoadLevel


class Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_calm_is_all_of_the_budget(clock: Clock) -> None:
    load = LoadLevel(clock)
    for _ in range(100):
        load.saw(requests=50)
        clock.now += 0.1
        assert load.level() == 1.0


@pytest.mark.parametrize(
    ("saw", "level"),
    [
        ({"requests": 100, "late": 1}, 1.0),  # 1 % is the most that calm allows
        ({"requests": 100, "late": 2}, DECREASE),
        ({"requests": 0, "late": 1}, DECREASE),  # reports of one process may come without those of another
        ({"crowded": True}, DECREASE),
    ],
)
def test_trouble_takes_from_it(clock: Clock, saw: dict[str, float], level: float) -> None:
    load = LoadLevel(clock)
    load.saw(**saw)  # type: ignore[arg-type]
    assert load.level() == 1.0  # not before the period is over
    clock.now += PERIOD_SECONDS
    assert load.level() == level
    assert load.level() == level  # once


def test_lasting_trouble_leaves_a_little_and_calm_brings_it_back_slowly(clock: Clock) -> None:
    load = LoadLevel(clock)
    levels = []
    for second in range(20):
        for _ in range(4):
            clock.now += 0.25
            load.saw(requests=10, late=5 if second < 3 else 0)
            levels.append(load.level())
    assert levels[:3] == pytest.approx([0.7, 0.49, 0.343])
    assert min(levels) == LOWEST
    calm = levels[levels.index(LOWEST) :]
    assert calm[-1] == 1.0
    assert all(0 <= after - before <= INCREASE + 1e-9 for before, after in itertools.pairwise(calm))


def test_a_pause_is_calm(clock: Clock) -> None:
    load = LoadLevel(clock)
    for _ in range(4):
        load.saw(crowded=True)
        clock.now += PERIOD_SECONDS
        load.level()
    assert load.level() == pytest.approx(DECREASE**4)
    clock.now += 60
    assert load.level() == 1.0
