"""What id dropout may change, and how often it does."""

import numpy as np
import pytest

from tests.support.recipes import tiny_recipe
from triton_ads.training.id_dropout import IdDropout


def inputs(rows: int) -> dict[str, np.ndarray]:
    """user, zip | place; item, similar x 2; seen (item, zip) x 3, bought (item) x 2; ids 5 where there is a value."""
    return {
        "user_ids": np.full((rows, 3), 5),
        "item_ids": np.tile([5, 5, 0], (rows, 1)),
        "sequence_ids": np.tile([5, 5, 5, 5, 0, 0, 5, 0], (rows, 1)),
        "user_dense": np.ones((rows, 1), dtype=np.float32),
    }


def test_only_real_ids_of_vocabularies_change_and_not_the_scenario() -> None:
    rows = 4000
    given = inputs(rows)
    found = IdDropout(tiny_recipe(), 0.25, np.random.default_rng(0))(given)
    can_change = {
        "user_ids": [True, False, False],
        "item_ids": [True, True, False],
        "sequence_ids": [True, False, True, False, False, False, True, False],
    }
    for name, columns in can_change.items():
        changed = found[name] != given[name]
        assert set(np.unique(found[name][changed])) == {1}
        # Four standard deviations of a share of 4,000 draws.
        for column, may in enumerate(columns):
            share = changed[:, column].mean()
            assert share == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / rows) ** 0.5) if may else share == 0
    assert found["user_dense"] is given["user_dense"]
    assert all((given[name] == inputs(rows)[name]).all() for name in given)


def test_independent_between_columns_and_batches() -> None:
    dropout = IdDropout(tiny_recipe(), 0.5, np.random.default_rng(0))
    first, second = dropout(inputs(2000)), dropout(inputs(2000))
    a, b, c = first["user_ids"][:, 0] == 1, first["item_ids"][:, 0] == 1, second["user_ids"][:, 0] == 1
    assert np.mean(a == b) == pytest.approx(0.5, abs=0.05)
    assert np.mean(a == c) == pytest.approx(0.5, abs=0.05)


def test_rate_zero_changes_nothing() -> None:
    found = IdDropout(tiny_recipe(), 0.0, np.random.default_rng(0))(inputs(3))
    assert all((found[name] == inputs(3)[name]).all() for name in found)
