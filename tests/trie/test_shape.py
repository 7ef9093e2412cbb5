"""What verifying costs, worked by hand."""

import numpy as np
import pytest

from triton_ads.trie import build_tree
from triton_ads.trie.shape import shape_of


def full(*branching: int) -> np.ndarray:
    grid = np.meshgrid(*(np.arange(width) for width in branching), indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def test_a_wide_top_worked_by_hand() -> None:
    """100 children of the root, each with one path of two: a beam of 10 runs 10 tokens a step, 20 in one go."""
    ids = np.repeat(np.arange(100)[:, None], 3, axis=1)
    shape = shape_of(build_tree(ids, np.arange(100)), beam=10, fixed_ms=20, token_ms=1)
    first, second, third = shape.levels
    assert (first.nodes, first.ads, first.branching, first.survivors) == (100, 0, 1.0, 10)
    assert (first.step_tokens, first.verify_tokens, first.verify_ms) == (10, 20, 40)
    assert (second.step_tokens, second.verify_tokens, second.verify_ms) == (10, 10, 60)
    assert (third.ads, third.branching, third.verify_tokens, third.verify_ms) == (100, 0.0, 0, None)
    assert (shape.stepping_ms, shape.best_level) == (60, 1)
    assert shape.gain == pytest.approx(1.5)


def test_a_uniform_tree_gains_nothing() -> None:
    """10 children everywhere: below 10 survivors of level 1 lie 10 + 100 nodes; of level 2 there are 10 to run."""
    shape = shape_of(build_tree(full(10, 10, 10), np.arange(1000)), beam=10, fixed_ms=20, token_ms=1)
    assert [level.verify_tokens for level in shape.levels] == [110, 10, 0]
    assert shape.stepping_ms == 60
    assert (shape.best_level, shape.gain) == (None, 1.0)


def test_leaves_of_several_depths() -> None:
    shape = shape_of(build_tree([[1, 0], [2, 3, 0], [2, 0]], [5, 6, 7]), beam=20, fixed_ms=1, token_ms=0)
    assert [level.ads for level in shape.levels] == [0, 2, 1]
    assert [level.verify_tokens for level in shape.levels] == [3, 1, 0]


def test_one_level_runs_nothing() -> None:
    shape = shape_of(build_tree(full(7), np.arange(7)), beam=3, fixed_ms=5, token_ms=1)
    assert (shape.stepping_ms, shape.best_level, shape.gain) == (0, None, 1.0)
    with pytest.raises(ValueError, match="beam 0"):
        shape_of(build_tree([[1]], [1]), 0, 1, 1)
