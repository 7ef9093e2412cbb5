"""Measures against brute force and values worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.training.measures import auc, calibration, expected_calibration_error, log_loss, quality

# Few distinct scores, so that ties are common.
PAIRS = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=40)


def pairwise_auc(label: np.ndarray, score: np.ndarray) -> float:
    wins = [(p > q) + 0.5 * (p == q) for p in score[label > 0] for q in score[label == 0]]
    return sum(wins) / len(wins)


@given(PAIRS.filter(lambda pairs: len({label for label, _ in pairs}) == 2))
def test_auc_equals_all_pairs(pairs: list[tuple[bool, int]]) -> None:
    label = np.array([p[0] for p in pairs], dtype=np.float32)
    score = np.array([p[1] for p in pairs], dtype=np.float32)
    assert auc(label, score) == pytest.approx(pairwise_auc(label, score), abs=1e-12)


@pytest.mark.parametrize(
    ("label", "score", "expected"),
    [
        ([0, 1], [0.1, 0.2], 1.0),
        ([0, 1], [0.2, 0.1], 0.0),
        ([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], 0.5),
        # Of the four pairs the positive wins two, ties one, loses one.
        ([0, 1, 0, 1], [0.3, 0.3, 0.1, 0.2], 0.625),
    ],
)
def test_auc_worked(label: list[int], score: list[float], expected: float) -> None:
    assert auc(np.array(label), np.array(score)) == expected


def test_auc_needs_both_kinds() -> None:
    with pytest.raises(ValueError, match="2 positive and 0 negative"):
        auc(np.ones(2), np.zeros(2))


def test_log_loss_worked() -> None:
    # p = 3/4 for a positive, p = 1/2 for a negative.
    logits = np.array([math.log(3), 0.0])
    assert log_loss(np.array([1, 0]), logits) == pytest.approx((math.log(4 / 3) + math.log(2)) / 2)
    # A probability that float64 rounds to 1 still costs what it should.
    assert log_loss(np.array([0]), np.array([1000.0])) == 1000


def test_calibration_worked() -> None:
    assert calibration(np.array([1, 0, 0, 0]), np.array([0.5, 0.5, 0.25, 0.25])) == pytest.approx(1.5)
    assert calibration(np.zeros(2), np.full(2, 0.5)) == math.inf


def test_ece_worked() -> None:
    # Bin [0.2, 0.3): two, mean 0.25, actual 0.5. Bin [0.9, 1]: two, mean 0.975, actual 1.
    label, probability = np.array([1, 0, 1, 1]), np.array([0.25, 0.25, 0.95, 1.0])
    assert expected_calibration_error(label, probability) == pytest.approx(0.5 * 0.25 + 0.5 * 0.025)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=40))
def test_ece_equals_a_loop(pairs: list[tuple[bool, float]]) -> None:
    label = np.array([p[0] for p in pairs], dtype=np.float64)
    probability = np.array([p[1] for p in pairs])
    bins = np.minimum(np.floor(probability * 10), 9)
    expected = sum(
        np.mean(bins == b) * abs(probability[bins == b].mean() - label[bins == b].mean()) for b in np.unique(bins)
    )
    assert expected_calibration_error(label, probability) == pytest.approx(expected, abs=1e-12)


def test_quality_measures_each_label_by_itself() -> None:
    label = np.array([[1, 0], [0, 1], [0, 0], [1, 1]], dtype=np.float32)
    logit = np.array([[2, 2], [-2, -2], [-1, 0], [1, -1]], dtype=np.float32)
    found = quality(("cvr", "dcvr"), label, logit)
    assert found["cvr"]["auc"] == 1.0
    assert found["dcvr"]["auc"] == 0.0
    assert found["cvr"]["base_rate"] == 0.5
    sigmoid = 1 / (1 + np.exp(-logit[:, 0].astype(np.float64)))
    assert found["cvr"]["calibration"] == pytest.approx(sigmoid.mean() / 0.5)
    assert found["cvr"]["log_loss"] == pytest.approx(-np.mean(np.log(np.where(label[:, 0] > 0, sigmoid, 1 - sigmoid))))
