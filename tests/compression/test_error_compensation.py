"""Error compensation: the least-squares answer, and less output error than without it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_ads.compression.error_compensation import compensated, compensated_pruning, inverse_factor
from triton_ads.compression.packing import pack, unpack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import largest_of_four
from triton_ads.compression.rounding import round_fitted


def correlated_inputs(columns: int, seed: int = 0) -> NDArray[np.float32]:
    """Hessian of inputs that say much about each other, as activations do."""
    rng = np.random.default_rng(seed)
    x_TK = rng.standard_normal((4 * columns, columns)) @ rng.standard_normal((columns, columns))
    return (x_TK.T @ x_TK / len(x_TK)).astype(np.float32)


def output_error(
    weight_NK: NDArray[np.floating], other_NK: NDArray[np.floating], hessian_KK: NDArray[np.floating]
) -> float:
    error_NK = weight_NK.astype(np.float64) - other_NK
    return float(np.einsum("nk,kl,nl->", error_NK, hessian_KK, error_NK))


def test_the_factor_is_that_of_the_inverse() -> None:
    hessian_KK = correlated_inputs(40)
    damped_KK = hessian_KK + 0.01 * np.diagonal(hessian_KK).mean() * np.eye(40)
    factor_KK = inverse_factor(hessian_KK).astype(np.float64)
    assert not np.tril(factor_KK, -1).any()
    # Float32 rounding of the factor, times the condition number of the damped Hessian (below 1e4).
    np.testing.assert_allclose(factor_KK.T @ factor_KK @ damped_KK, np.eye(40), atol=1e-3)


def test_a_single_pruned_column_is_made_up_for_by_least_squares() -> None:
    """Column 3 pruned, columns 4 and on free, columns 0 to 2 already fixed."""
    hessian_KK = correlated_inputs(12)
    damped_KK = hessian_KK.astype(np.float64) + 0.01 * np.diagonal(hessian_KK).mean() * np.eye(12)
    weight_NK = np.random.default_rng(1).standard_normal((2, 12)).astype(np.float32)
    keep_NK = np.ones((2, 12), np.bool_)
    keep_NK[:, 3] = False
    found_NK = compensated_pruning(weight_NK, keep_NK, hessian_KK)
    np.testing.assert_array_equal(found_NK[:, :3], weight_NK[:, :3])
    np.testing.assert_array_equal(found_NK[:, 3], 0)
    moved_NK = weight_NK[:, 3:4] * np.linalg.solve(damped_KK[4:, 4:], damped_KK[4:, 3])
    np.testing.assert_allclose(found_NK[:, 4:], weight_NK[:, 4:] + moved_NK, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("pattern", list(Pattern))
@pytest.mark.parametrize("columns", [64, 300])  # within one block of columns; across two, with a last group cut short
def test_less_output_error_than_rounding_alone(pattern: Pattern, columns: int) -> None:
    rng = np.random.default_rng(2)
    hessian_KK = correlated_inputs(columns)
    weight_NK = rng.standard_normal((48, columns)).astype(np.float32)
    size_N = rng.choice(pattern.group_sizes, 48).astype(np.uint16)
    keep_NK = largest_of_four(np.abs(weight_NK) * np.sqrt(np.diagonal(hessian_KK)), pattern)
    plain = round_fitted(weight_NK, pattern, size_N, keep_NK, np.diagonal(hessian_KK).copy())
    better, unrounded_NK = compensated(weight_NK, pattern, size_N, keep_NK, hessian_KK)
    assert output_error(weight_NK, better.dequantised(), hessian_KK) < 0.97 * output_error(
        weight_NK, plain.dequantised(), hessian_KK
    )
    assert not better.codes_NK[~keep_NK].any() and not unrounded_NK[~keep_NK].any()
    steps_NK = np.repeat(np.abs(better.scales_NB), 32, axis=1)[:, :columns].astype(np.float32)
    inside_NK = (better.codes_NK > -8) & (better.codes_NK < 7)
    assert (np.abs(unrounded_NK - better.dequantised())[inside_NK] <= 0.5001 * steps_NK[inside_NK]).all()
    np.testing.assert_array_equal(better.group_size_N, size_N)
    np.testing.assert_array_equal(unpack(pack(better)).codes_NK, better.codes_NK)
    pruned_NK = compensated_pruning(weight_NK, keep_NK, hessian_KK)
    assert output_error(weight_NK, pruned_NK, hessian_KK) <= output_error(weight_NK, weight_NK * keep_NK, hessian_KK)


def test_inputs_that_say_nothing_about_each_other_leave_rounding_as_it_is() -> None:
    weight_NK = np.random.default_rng(3).standard_normal((8, 128)).astype(np.float32)
    size_N, keep_NK = np.full(8, 64, np.uint16), np.ones((8, 128), np.bool_)
    hessian_KK = np.diag(np.random.default_rng(4).exponential(size=128)).astype(np.float32)
    found, _ = compensated(weight_NK, Pattern.DENSE, size_N, keep_NK, hessian_KK)
    plain = round_fitted(weight_NK, Pattern.DENSE, size_N, keep_NK, np.diagonal(hessian_KK).copy())
    np.testing.assert_array_equal(found.codes_NK, plain.codes_NK)
    np.testing.assert_array_equal(found.scales_NB, plain.scales_NB)


def test_inputs_that_are_never_there_are_no_trouble() -> None:
    weight_NK = np.ones((4, 64), np.float32)
    keep_NK = np.ones((4, 64), np.bool_)
    found, _ = compensated(weight_NK, Pattern.DENSE, np.full(4, 64, np.uint16), keep_NK, np.zeros((64, 64), np.float32))
    assert np.isfinite(found.dequantised()).all()
