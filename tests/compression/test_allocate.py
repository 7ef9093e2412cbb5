"""Budgets: kept, spent well, and refused where nothing fits."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.compression.allocate import BudgetError, Option, allocate, lower_hull


def test_a_worked_example() -> None:
    # From (1, 2) bytes on: 4 bytes save 8 of the first item, 2 save 5 of the second, 3 more save 1 of the first.
    items = [[Option(1, 10.0), Option(5, 2.0), Option(8, 1.0)], [Option(2, 6.0), Option(4, 1.0)]]
    assert allocate(items, 3) == [0, 0]
    assert allocate(items, 6) == [0, 1]  # 2.5 a byte before 2 a byte
    assert allocate(items, 9) == [1, 1]
    assert allocate(items, 12) == [2, 1]


def test_equal_gains_go_to_the_earlier_item() -> None:
    items = [[Option(1, 3.0), Option(2, 1.0)]] * 3
    assert allocate(items, 4) == [1, 0, 0]


def test_options_that_are_no_bargain_are_never_taken() -> None:
    dear_and_worse, above_the_line = Option(6, 9.0), Option(4, 7.5)
    options = [Option(2, 8.0), above_the_line, dear_and_worse, Option(8, 1.0)]
    assert lower_hull(options) == [0, 3]


def test_a_step_that_does_not_fit_leaves_room_for_others() -> None:
    items = [[Option(0, 100.0), Option(10, 0.0)], [Option(0, 4.0), Option(3, 0.0)]]
    assert allocate(items, 4) == [0, 1]


def test_too_little_is_refused_with_the_range() -> None:
    items = [[Option(10, 2.0), Option(20, 1.0)], [Option(5, 0.0)]]
    with pytest.raises(BudgetError, match=r"a budget of 14 bytes; 15 to 25 bytes are possible") as raised:
        allocate(items, 14)
    assert (raised.value.least, raised.value.most) == (15, 25)


options = st.builds(Option, st.integers(0, 12), st.integers(0, 40).map(float))


@given(st.lists(st.lists(options, min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 40))
def test_against_every_combination(items: list[list[Option]], budget: int) -> None:
    combinations = [(sum(one.cost for one in chosen), sum(one.loss for one in chosen)) for chosen in product(*items)]
    affordable = [loss for cost, loss in combinations if cost <= budget]
    if not affordable:
        with pytest.raises(BudgetError):
            allocate(items, budget)
        return
    taken = [options[one] for options, one in zip(items, allocate(items, budget), strict=True)]
    cost, loss = sum(one.cost for one in taken), sum(one.loss for one in taken)
    assert cost <= budget
    # Nothing that costs as much or less is better by more than the one step that did not fit.
    steps = [
        options[first].loss - options[second].loss
        for options in items
        for first, second in pairwise(lower_hull(options))
    ]
    assert loss <= min(affordable) + max(steps, default=0.0)


@given(st.lists(st.lists(options, min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 40))
def test_optimal_for_what_it_spends(items: list[list[Option]], budget: int) -> None:
    """Where every step down to some price a byte is taken, no combination of the same bytes loses less."""
    try:
        taken = allocate(items, budget)
    except BudgetError:
        return
    chosen = [options[one] for options, one in zip(items, taken, strict=True)]
    cost, loss = sum(one.cost for one in chosen), sum(one.loss for one in chosen)
    prices, left = [], []
    for options_of, one in zip(items, taken, strict=True):
        hull = lower_hull(options_of)
        for number, (first, second) in enumerate(pairwise(hull)):
            price = (options_of[first].loss - options_of[second].loss) / (
                options_of[second].cost - options_of[first].cost
            )
            (prices if number < hull.index(one) else left).append(price)
    if prices and left and min(prices) < max(left):
        return  # a dear step was left out: the promise is the weaker one above
    same = [sum(one.loss for one in other) for other in product(*items) if sum(one.cost for one in other) <= cost]
    assert loss <= min(same) + 1e-9
