"""Criteria against worked numbers, masks against brute force."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_ads.compression.calibration import Calibration
from triton_ads.compression.importance import Criterion, importance
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import largest_of_four

WEIGHT_NK = np.array([[1.0, -2.0, 3.0, -4.0], [0.5, 0.0, -1.5, 2.0]], np.float32)
CALIBRATION = Calibration(
    norm_K=np.array([8.0, 4.0, 2.0, 1.0], np.float32),
    gradient_NK=np.array([[0.1, 0.2, 0.0, 0.1], [0.4, 0.3, 0.2, 0.1]], np.float32),
    hessian_KK=np.eye(4, dtype=np.float32),
    row_share_N=np.array([0.5, 0.5], np.float32),
)


def test_magnitude() -> None:
    np.testing.assert_array_equal(importance(WEIGHT_NK, CALIBRATION, Criterion.MAGNITUDE), np.abs(WEIGHT_NK))


def test_wanda() -> None:
    wanted = [[8.0, 8.0, 6.0, 4.0], [4.0, 0.0, 3.0, 2.0]]
    np.testing.assert_array_equal(importance(WEIGHT_NK, CALIBRATION, Criterion.WANDA), np.float32(wanted))


def test_the_gradient_term_is_added_and_terms_are_scaled_by_their_means() -> None:
    # |W| ||X|| has mean 4.375, |W| |dE/dW| = [.1 .4 0 .4; .2 0 .3 .2] has mean .2
    by_input = np.array([[8.0, 8.0, 6.0, 4.0], [4.0, 0.0, 3.0, 2.0]]) / 4.375
    by_gradient = np.array([[0.1, 0.4, 0.0, 0.4], [0.2, 0.0, 0.3, 0.2]]) / 0.2
    found = importance(WEIGHT_NK, CALIBRATION, Criterion.GRADIENT, gradient_share=0.5)
    np.testing.assert_allclose(found, 0.5 * by_input + 0.5 * by_gradient, rtol=1e-6)
    found = importance(WEIGHT_NK, CALIBRATION, Criterion.GRADIENT, gradient_share=0.25)
    np.testing.assert_allclose(found, 0.75 * by_input + 0.25 * by_gradient, rtol=1e-6)


def test_the_gradient_can_change_a_mask() -> None:
    wanda = largest_of_four(importance(WEIGHT_NK, CALIBRATION, Criterion.WANDA), Pattern.TWO_OF_FOUR)
    ours = largest_of_four(importance(WEIGHT_NK, CALIBRATION, Criterion.GRADIENT, 0.5), Pattern.TWO_OF_FOUR)
    np.testing.assert_array_equal(wanda, [[True, True, False, False], [True, False, True, False]])
    np.testing.assert_array_equal(ours, [[False, True, False, True], [True, False, True, False]])


def test_the_length_of_the_text_and_the_scale_of_the_loss_do_not_matter() -> None:
    longer = Calibration(
        CALIBRATION.norm_K * 7, CALIBRATION.gradient_NK * 0.01, CALIBRATION.hessian_KK, CALIBRATION.row_share_N
    )
    np.testing.assert_allclose(
        importance(WEIGHT_NK, longer, Criterion.GRADIENT),
        importance(WEIGHT_NK, CALIBRATION, Criterion.GRADIENT),
        rtol=1e-6,
    )


def test_inputs_that_are_never_there_leave_the_gradient() -> None:
    silent = Calibration(
        np.zeros(4, np.float32), CALIBRATION.gradient_NK, CALIBRATION.hessian_KK, CALIBRATION.row_share_N
    )
    found = importance(WEIGHT_NK, silent, Criterion.GRADIENT)
    assert np.isfinite(found).all() and found.max() > 0


@settings(max_examples=60)
@given(
    st.sampled_from([Pattern.TWO_OF_FOUR, Pattern.ONE_OF_FOUR]),
    st.integers(1, 6),
    st.integers(1, 13),
    st.integers(0, 99),
)
def test_masks_against_every_choice_of_four(pattern: Pattern, rows: int, columns: int, seed: int) -> None:
    """Few distinct scores, so that there are ties: the leftmost stays."""
    score_NK = np.random.default_rng(seed).integers(0, 4, (rows, columns)).astype(np.float32)
    keep_NK = largest_of_four(score_NK, pattern)
    for row in range(rows):
        for start in range(0, columns, 4):
            four = score_NK[row, start : start + 4]
            choices = list(combinations(range(len(four)), min(pattern.kept, len(four))))
            best = max(choices, key=lambda kept: (sorted(four[list(kept)], reverse=True), [-one for one in kept]))
            assert tuple(np.flatnonzero(keep_NK[row, start : start + 4])) == best


@pytest.mark.parametrize("criterion", list(Criterion))
def test_a_matrix_of_zeros_has_no_importance(criterion: Criterion) -> None:
    np.testing.assert_array_equal(importance(np.zeros((2, 4), np.float32), CALIBRATION, criterion), np.zeros((2, 4)))
