"""What verifying costs, worked by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.trie import build_tree
from triton_ads.trie.cluster import cluster, to_tokens
from triton_ads.trie.shape import compared, shape_of, shape_of_clusters


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


@given(st.integers(1, 400), st.integers(1, 5), st.integers(1, 30), st.randoms(use_true_random=False))
def test_the_shape_of_clusters_is_known_before_they_are(ads: int, length: int, beam: int, random: Any) -> None:
    """From numbers alone as from the tree that clustering makes, whatever the branching."""
    widths = [random.randint(1, 9) for _ in range(length)]
    widths[random.randrange(length)] += ads  # so that there is room
    vectors = np.random.default_rng(ads).normal(size=(ads, 3)).astype(np.float32)
    tree = build_tree(to_tokens(cluster(vectors, tuple(widths)), tuple(widths), 0), np.arange(ads))
    assert shape_of_clusters(ads, tuple(widths), beam, 3, 2) == shape_of(tree, beam, 3, 2)


def test_a_comparison_worked_by_hand() -> None:
    """100 ads, beam 4, three events, a forward of 10 + T milliseconds. Length 2 is 22 x 5: one step of 4. Length 3 is
    14, 4 and 2: a step of 4, then one of 4; or all 4 + 16 below at once, which takes longer."""
    lines = compared(100, (1, 2, 3), beam=4, events=3, fixed_ms=10, token_ms=1).splitlines()
    cells = [line.split() for line in lines[1:]]
    assert cells[0] == ["1", "100", "3", "13", "0", "0"]
    assert cells[1] == ["2", "22", "5", "6", "16", "14", "14"]
    assert cells[2] == ["3", "14", "4", "2", "9", "19", "28", "28"]
    assert len(compared(5000, (1, 2), 4, 3, 10, 1).splitlines()) == 2  # no node has so many children: length 1 is out
