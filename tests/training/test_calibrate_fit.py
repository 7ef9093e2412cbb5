"""Lines and growing curves against closed forms, brute force and planted distortions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.models.calibration import LabelMap
from triton_ads.training.calibrate_fit import (
    BIN,
    GREATEST_SLOPE,
    LEAST_SLOPE,
    MOST_KNOTS,
    Curve,
    fit_shift,
    isotonic,
    platt,
    pool_adjacent_violators,
    sigmoid,
)


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def curve(found: Curve, logit_n: np.ndarray) -> np.ndarray:
    return LabelMap("cvr", None, *found)(logit_n)


def loss(logit_n: np.ndarray, label_n: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0, logit_n) - label_n * logit_n))


def drawn(true_logit_n: np.ndarray, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).random(len(true_logit_n)) < sigmoid(true_logit_n)).astype(np.float64)


def test_platt_of_two_logits_is_the_line_through_their_rates() -> None:
    """At logit -1 one of 10 converted, at 2 six of 8: the likeliest line meets both rates."""
    logit_n = np.array([-1.0] * 10 + [2.0] * 8)
    label_n = np.array([1.0] + [0.0] * 9 + [1.0] * 6 + [0.0] * 2)
    slope = (logit(6 / 8) - logit(1 / 10)) / 3
    found = platt(logit_n, label_n)
    assert found.slope == pytest.approx(slope, rel=1e-8)
    assert found.shift == pytest.approx(logit(1 / 10) + slope, rel=1e-8)
    assert (found.knots, found.bends) == ((), ())


def test_platt_finds_a_planted_line() -> None:
    """An overconfident model: three times too steep, and 1 too high."""
    true_n = np.random.default_rng(0).normal(-1, 1.5, 200_000)
    found = platt(3 * true_n + 1, drawn(true_n, 1))
    # Two standard errors of a logistic regression on 200,000 examples are about 0.003 and 0.015.
    assert found.slope == pytest.approx(1 / 3, abs=0.004)
    assert found.shift == pytest.approx(-1 / 3, abs=0.015)


def test_platt_is_the_likeliest_line_nearby() -> None:
    logit_n = np.random.default_rng(3).normal(0, 2, 500)
    label_n = drawn(logit_n**3 / 10, 4)
    found = platt(logit_n, label_n)
    best = loss(found.slope * logit_n + found.shift, label_n)
    for slope in (-1e-3, 0, 1e-3):
        for shift in (-1e-3, 0, 1e-3):
            assert loss((found.slope + slope) * logit_n + found.shift + shift, label_n) >= best - 1e-15


@pytest.mark.parametrize(("sign", "slope"), [(-1, LEAST_SLOPE), (1, GREATEST_SLOPE)])
def test_a_line_stays_within_bounds(sign: int, slope: float) -> None:
    """Labels against the scores, and labels that the scores part: the order is kept, the mean is right."""
    logit_n = np.linspace(-1, 1, 100)
    label_n = (sign * logit_n > 0.3).astype(np.float64)
    found = platt(logit_n, label_n)
    assert found.slope == slope
    assert sigmoid(curve(found, logit_n)).mean() == pytest.approx(label_n.mean(), abs=1e-9)


def least_squares_by_min_max(y_b: np.ndarray, weight_b: np.ndarray) -> list[float]:
    """The growing sequence of least squares by its closed form: max over starts of min over ends of the mean."""
    n = len(y_b)

    def mean(start: int, end: int) -> float:
        return float(np.average(y_b[start : end + 1], weights=weight_b[start : end + 1]))

    return [max(min(mean(start, end) for end in range(i, n)) for start in range(i + 1)) for i in range(n)]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), min_size=1, max_size=9))
def test_pooling_is_the_least_squares_of_a_growing_sequence(pairs: list[tuple[int, int]]) -> None:
    y_b, weight_b = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    x, y = pool_adjacent_violators(np.arange(len(y_b), dtype=np.float64), y_b, weight_b)
    expected = least_squares_by_min_max(y_b, weight_b)
    assert y == pytest.approx(sorted(set(np.round(expected, 12))), abs=1e-9)
    assert np.all(np.diff(y) > 0) and np.all(np.diff(x) > 0)


def test_pooling_worked() -> None:
    """3 and 1 become 2; with weights 1 and 3 the second counts thrice."""
    x, y = pool_adjacent_violators(np.array([0.0, 4.0, 5.0]), np.array([3.0, 1.0, 7.0]), np.array([1.0, 3.0, 1.0]))
    assert (x.tolist(), y.tolist()) == ([3.0, 5.0], [1.5, 7.0])


def test_isotonic_worked() -> None:
    """Two bins: at logit -2 ten of 100 convert, at 1 forty do. One example of the mean rate is added to each."""
    logit_n = np.array([-2.0] * 100 + [1.0] * 100)
    label_n = np.array([1.0] * 10 + [0.0] * 90 + [1.0] * 40 + [0.0] * 60)
    low, high = logit(10.25 / 101), logit(40.25 / 101)
    found = isotonic(logit_n, label_n)
    slope = (high - low) / 3
    assert found.knots == (-2.0, 1.0)
    assert found.bends == pytest.approx((slope - 1, 1 - slope), rel=1e-12)
    # Slope 1 below the first knot and above the last; the shift puts the mean right, which the added example moved.
    found_logits = curve(found, np.array([-3.0, -2.0, -0.5, 1.0, 4.0]))
    assert np.diff(found_logits) == pytest.approx([1, 1.5 * slope, 1.5 * slope, 3], rel=1e-12)
    assert found_logits[1] == pytest.approx(low, abs=0.02)
    assert sigmoid(curve(found, logit_n)).mean() == pytest.approx(0.25, abs=1e-12)


def test_isotonic_straightens_what_no_line_can() -> None:
    """A model that is unsure where it should be sure: the true logit is x^3 / 4."""
    x_n = np.random.default_rng(0).normal(0, 1.5, 50_000)
    label_n = drawn(x_n**3 / 4, 1)
    line, bent = curve(platt(x_n, label_n), x_n), curve(isotonic(x_n, label_n), x_n)
    fresh = drawn(x_n**3 / 4, 2)
    best = loss(x_n**3 / 4, fresh)
    assert loss(bent, fresh) < best + 0.005
    assert loss(line, fresh) > best + 0.02


outcomes = st.lists(st.tuples(st.integers(-6, 6), st.booleans()), min_size=2, max_size=60).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)


@given(outcomes, st.integers(1, 40), st.sampled_from([platt, isotonic]))
def test_every_map_grows_and_is_right_on_average(pairs: list[tuple[int, bool]], times: int, fit) -> None:
    """Ties, rates of 0 and 1, scores that say nothing: the order is kept, and predicted is actual."""
    logit_n = np.repeat([x / 2 for x, _ in pairs], times)
    label_n = np.repeat([float(y) for _, y in pairs], times)
    found = fit(logit_n, label_n)
    assert len(found.knots) == len(found.bends) <= min(MOST_KNOTS, max(1, len(logit_n) // BIN))
    assert np.all(np.diff(found.knots) > 0)
    grid = np.linspace(-10, 10, 401)
    steps = np.diff(curve(found, grid)) / np.diff(grid)
    assert np.all(steps >= LEAST_SLOPE - 1e-9) and np.all(steps <= GREATEST_SLOPE + 1e-9)
    assert sigmoid(curve(found, logit_n)).mean() == pytest.approx(label_n.mean(), abs=1e-9)


@given(outcomes)
def test_the_shift_makes_the_mean_right(pairs: list[tuple[int, bool]]) -> None:
    logit_n, label_n = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    assert sigmoid(logit_n + fit_shift(logit_n, label_n)).mean() == pytest.approx(label_n.mean(), abs=1e-12)
