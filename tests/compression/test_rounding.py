"""Fitted scales beside round to nearest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_ads.compression.packing import pack, unpack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import largest_of_four, round_to_nearest
from triton_ads.compression.rounding import fitted_scales, round_fitted


def test_a_group_on_the_grid_is_found_exactly() -> None:
    codes = np.arange(-8, 8, dtype=np.float32)
    scale = fitted_scales((codes * 0.25)[None, None], np.ones((1, 16), np.float32))
    assert scale.tolist() == [[0.25]]


def test_a_largest_weight_above_zero_gets_the_code_that_only_negative_scales_reach() -> None:
    codes = np.arange(-7, 9, dtype=np.float32)
    scale = fitted_scales((codes * 0.25)[None, None], np.ones((1, 16), np.float32))
    assert scale.tolist() == [[-0.25]]


def test_weak_inputs_are_clipped_for_strong_ones() -> None:
    """One outlier that no input ever meets: all others are rounded as finely as if it were not there."""
    weight = np.array([0.1, -0.2, 0.3, 7.0], np.float32)[None, None]
    even, skewed = (fitted_scales(weight, np.float32([[1, 1, 1, last]]))[0, 0] for last in (1.0, 0.0))
    assert abs(skewed) < abs(even)


@settings(max_examples=60)
@given(st.sampled_from(list(Pattern)), st.integers(1, 70), st.integers(1, 300), st.integers(0, 99))
def test_never_worse_than_nearest_and_packs(pattern: Pattern, rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight_NK = rng.standard_t(3, (rows, columns)).astype(np.float32)
    strength_K = rng.exponential(size=columns).astype(np.float32)
    size_N = rng.choice(pattern.group_sizes, rows).astype(np.uint16)
    keep_NK = largest_of_four(np.abs(weight_NK), pattern)
    fitted = round_fitted(weight_NK, pattern, size_N, keep_NK, strength_K)
    nearest = round_to_nearest(weight_NK, pattern, size_N, keep_NK)
    kept_NK = np.where(keep_NK, weight_NK, 0)
    errors = [
        np.sum((kept_NK - matrix.dequantised()) ** 2 * strength_K, axis=1, dtype=np.float64)
        for matrix in (fitted, nearest)
    ]
    assert (errors[0] <= errors[1] * (1 + 1e-4) + 1e-9).all()  # float32 sums in another order
    assert not fitted.codes_NK[~keep_NK].any()
    back = unpack(pack(fitted))
    np.testing.assert_array_equal(back.codes_NK, fitted.codes_NK)
    np.testing.assert_array_equal(back.scales_NB, fitted.scales_NB)


def test_zeros_stay_zeros() -> None:
    matrix = round_fitted(
        np.zeros((2, 64), np.float32), Pattern.DENSE, np.uint16([32, 64]), np.ones((2, 64), np.bool_),
        np.ones(64, np.float32),
    )  # fmt: skip
    assert not matrix.codes_NK.any() and not matrix.scales_NB.any()


def test_weights_beyond_a_float16_scale_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights reach 1e\+06; a float16 scale allows 458528"):
        fitted_scales(np.full((1, 1, 4), 1e6, np.float32), np.ones((1, 4), np.float32))
