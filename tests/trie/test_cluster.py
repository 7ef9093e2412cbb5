"""Clusters: balanced, distinct, deterministic, and of what is alike."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.trie import TreeError, branching, build_tree, cluster
from triton_ads.trie.branching import choose_branching
from triton_ads.trie.cluster import to_tokens


@pytest.mark.parametrize("module", [branching, cluster])
def test_examples(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.failed == 0 and found.attempted > 0


@given(st.integers(1, 3_000_000), st.integers(1, 8))
def test_the_branching_has_room_and_narrows(ads: int, length: int) -> None:
    widths = choose_branching(ads, length, widest=ads)
    room = 1
    for width in widths:
        room *= width
    assert room >= ads
    assert list(widths) == sorted(widths, reverse=True)


def test_a_branching_that_cannot_be() -> None:
    assert choose_branching(1, 1) == (1,)
    assert choose_branching(5000, 3, widest=100)[0] == 100
    with pytest.raises(TreeError, match="has room for 4096 ads, 5000 were given"):
        choose_branching(5000, 1)
    with pytest.raises(TreeError, match="length 0"):
        choose_branching(5, 0)


@given(st.integers(1, 200), st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(0, 9), st.booleans())
def test_balanced_and_distinct(ads: int, widths: list[int], seed: int, alike: bool) -> None:
    random = np.random.default_rng(seed)
    vectors = np.ones((ads, 3), np.float32) if alike else random.normal(size=(ads, 3)).astype(np.float32)
    shape = (*widths, 200)
    numbers = cluster.cluster(vectors, shape)
    assert len(np.unique(numbers, axis=0)) == ads
    assert (numbers >= 0).all() and (numbers < np.array(shape)).all()
    for level in range(len(shape)):
        parents = np.unique(numbers[:, :level], axis=0)
        for parent in parents:
            own = numbers[(numbers[:, :level] == parent).all(axis=1), level]
            sizes = np.bincount(own)
            assert len(sizes) == min(shape[level], len(own))
            assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(numbers, cluster.cluster(vectors.copy(), shape))


def test_what_is_alike_is_together() -> None:
    """Four tight groups far apart, of 5 each, in mixed order: the first level is the groups."""
    random = np.random.default_rng(0)
    group = random.permutation(np.repeat(np.arange(4), 5))
    centres = np.array([[0, 0], [100, 0], [0, 80], [100, 80]])
    vectors = (centres[group] + random.normal(size=(20, 2))).astype(np.float32)
    numbers = cluster.cluster(vectors, (4, 5))
    assert len({(int(g), int(n)) for g, n in zip(group, numbers[:, 0], strict=True)}) == 4


def test_worked_by_hand() -> None:
    """On a line: 0 1 | 10 11 12; of five in two parts the first is the larger: 0 1 10 | 11 12."""
    vectors = np.array([[10], [0], [12], [1], [11]], np.float32)
    assert cluster.cluster(vectors, (2, 3))[:, 0].tolist() == [0, 0, 1, 0, 1]


def test_tokens_make_a_tree() -> None:
    vectors = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
    widths = choose_branching(500, 4)
    tokens = to_tokens(cluster.cluster(vectors, widths), widths)
    tree = build_tree(tokens, np.arange(500))
    assert tree.ads == 500
    assert tree.vocabulary <= sum(widths)
    assert tree.level_start[2] - tree.level_start[1] == widths[0]


def test_what_cannot_be_clustered() -> None:
    with pytest.raises(TreeError, match="room for 4 ads, 5"):
        cluster.cluster(np.zeros((5, 2), np.float32), (2, 2))
    with pytest.raises(TreeError, match="finite"):
        cluster.cluster(np.full((5, 2), np.nan, np.float32), (5,))
