"""Who asks for what: frequencies are those of the model of traffic."""

import numpy as np
import pytest

from triton_ads.loadtest.traffic import UNKNOWN, Traffic, log_normal

DRAWS = 20_000


def test_users_are_zipf_and_some_are_unknown():
    random = np.random.default_rng(0)
    traffic = Traffic(np.array([30, 10, 20]), np.arange(5))
    drawn = np.array([traffic.user(random) for _ in range(DRAWS)])
    known = np.isin(drawn, traffic.users)
    # Five standard errors of a share of 20,000.
    assert np.mean(~known) == pytest.approx(UNKNOWN, abs=5 * (UNKNOWN / DRAWS) ** 0.5)
    assert drawn[~known].min() > 30
    weights = {30: 1.0, 10: 1 / 2, 20: 1 / 3}
    for user, weight in weights.items():
        assert np.mean(drawn[known] == user) == pytest.approx(weight / (11 / 6), abs=0.018)


def test_candidates_are_different_ones_as_far_as_there_are():
    random = np.random.default_rng(0)
    plenty, few = Traffic(np.array([1]), np.arange(5000)), Traffic(np.array([1]), np.arange(3))
    for _ in range(20):
        drawn = plenty.candidates(random)
        assert len(np.unique(drawn)) == len(drawn)
        assert set(few.candidates(random).tolist()) <= {0, 1, 2}


def test_numbers_of_candidates_keep_to_the_recipes_limit():
    random = np.random.default_rng(0)
    lengths = [len(Traffic(np.array([1]), np.arange(5000), longest=300).candidates(random)) for _ in range(500)]
    assert max(lengths) == 300
    assert min(lengths) >= 1
    assert log_normal(random, 1000, longest=1).tolist() == [1] * 1000


def test_who_has_the_longest_history_is_the_most_active(tmp_path):
    for side in ("users", "items"):
        (tmp_path / "store" / side).mkdir(parents=True)
    np.save(tmp_path / "store" / "users" / "ids.npy", np.array([7, 8, 9]))
    np.save(tmp_path / "store" / "users" / "sequences.npy", np.array([[0, 0, 0], [5, 6, 7], [5, 0, 0]]))
    np.save(tmp_path / "store" / "items" / "ids.npy", np.array([1, 2]))
    traffic = Traffic.of_release(tmp_path, max_candidates=100)
    assert traffic.users.tolist() == [8, 9, 7]
    assert traffic.longest == 100
