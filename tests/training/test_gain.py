"""Training of the learned router: grouping, losses, and a planted gain found again."""

import numpy as np
import pytest

from triton_ads.routing.gain import GainModel
from triton_ads.training.gain import PENALTIES, Requests, fit_gain, losses


def planted(requests: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """20 features of which two matter; the gain of each request behind a lot of noise."""
    random = np.random.default_rng(seed)
    x_RX = random.normal(3, 2, (requests, 20)).astype(np.float32)
    true_R = 0.02 * x_RX[:, 3] - 0.01 * x_RX[:, 7] + 0.05
    return x_RX, true_R, true_R + noise * random.normal(0, 1, requests)


def test_a_planted_gain_is_found() -> None:
    x_RX, _, gain_R = planted(20_000, noise=0.3, seed=0)
    parameters, _ = fit_gain([f"f{i}" for i in range(20)], x_RX, gain_R, np.ones(20_000, np.int64))
    other_RX, true_R, _ = planted(5000, noise=0.0, seed=1)
    assert np.corrcoef(GainModel(parameters)(other_RX), true_R)[0, 1] > 0.98
    assert {int(i) for i in np.argsort(-np.abs(parameters.weight))[:2]} == {3, 7}
    slope, start = np.polyfit(GainModel(parameters)(other_RX), true_R, 1)  # the scale is right as well
    assert slope == pytest.approx(1, abs=0.1)
    assert start == pytest.approx(0, abs=0.01)


def test_where_there_is_nothing_to_find_the_mean_is_predicted() -> None:
    random = np.random.default_rng(2)
    x_RX = random.normal(0, 1, (500, 40)).astype(np.float32)
    gain_R = 0.01 + 0.2 * random.normal(0, 1, 500)
    parameters, penalty = fit_gain([f"f{i}" for i in range(40)], x_RX, gain_R, np.ones(500, np.int64))
    assert penalty in PENALTIES
    predicted_R = GainModel(parameters)(x_RX)
    assert predicted_R.mean() == pytest.approx(gain_R.mean(), abs=1e-4)
    assert predicted_R.std() < 0.02  # a tenth of the noise


def test_a_request_counts_by_its_examples() -> None:
    """Without features that differ the prediction is the mean over examples: (3 x 0.1 + 1 x 0.5) / 4."""
    x_RX = np.ones((100, 1), np.float32)
    gain_R, examples_R = np.tile([0.1, 0.5], 50), np.tile([3, 1], 50)
    parameters, _ = fit_gain(["constant"], x_RX, gain_R, examples_R)
    np.testing.assert_allclose(GainModel(parameters)(x_RX[:2]), [0.2, 0.2], rtol=1e-6)


def test_the_same_examples_give_the_same_numbers() -> None:
    x_RX, _, gain_R = planted(1000, noise=0.3, seed=3)
    names, examples_R = [f"f{i}" for i in range(20)], np.ones(1000, np.int64)
    assert fit_gain(names, x_RX, gain_R, examples_R) == fit_gain(names, x_RX, gain_R, examples_R)


def test_losses_are_summed_over_labels() -> None:
    """-log sigmoid(0) twice; -log(1 - 0.75) - log(0.75) with logit log 3."""
    logit_nK = np.array([[0.0, 0.0], [np.log(3), np.log(3)]])
    found = losses(np.array([[1, 0], [0, 1]], np.float32), logit_nK)
    np.testing.assert_allclose(found, [2 * np.log(2), np.log(4) - np.log(0.75)], rtol=1e-12)


def test_requests_are_of_one_user_time_and_context() -> None:
    requests = Requests(np.arange(10, 16), np.array([1, 0, 1, 2, 0, 0]), np.array([11, 10, 13]))
    assert requests.size.tolist() == [3, 2, 1]
    assert requests.mean(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 8.0])).tolist() == [5.0, 2.0, 4.0]
