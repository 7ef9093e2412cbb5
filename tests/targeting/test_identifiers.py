"""Representations and identifiers."""

import doctest
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.features import words
from triton_ads.targeting.identifiers import cluster_identifiers, place, title_identifiers
from triton_ads.targeting.representation import behaviour_vectors, joined, text_vectors
from triton_ads.trie import TreeError, build_tree


def test_words() -> None:
    found = doctest.testmod(words)
    assert found.attempted and not found.failed
    assert words.words("") == []


def test_texts_that_share_words_are_alike() -> None:
    texts = ["space war drama", "space war comedy", "garden cooking", "garden cooking flowers", "unheard"]
    vectors = text_vectors(texts, 3)
    assert vectors.shape == (5, 3) and vectors.dtype == np.float32
    like = vectors @ vectors.T
    assert like[0, 1] > 0.9 and like[2, 3] > 0.9 and abs(like[0, 2]) < 0.1
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 1, 0], atol=1e-6)
    assert np.array_equal(vectors, text_vectors(texts, 3))


def test_tf_idf_worked_by_hand() -> None:
    """Of 3 texts, a is in 2 and b in 2: both weigh log(3/2), and a twice in a text (1 + log 2) times that."""
    vectors = text_vectors(["a a b", "a", "b"], 1)
    weights = np.array([[1 + np.log(2), 1], [1, 0], [0, 1]]) * np.log(1.5)
    u, s, _ = np.linalg.svd(weights)
    # With one dimension of length 1 each, all that is left is the side.
    np.testing.assert_allclose(vectors[:, 0], np.abs(np.sign(u[:, 0] * s[0])), atol=1e-6)


def test_ads_that_the_same_users_met_are_alike() -> None:
    """Ads 0 and 1 are met by users 0 to 4, ads 2 and 3 by users 5 to 9, ad 4 by nobody."""
    user = np.array([u for ad in (0, 1) for u in range(5)] + [u for ad in (2, 3) for u in range(5, 10)])
    ad = np.repeat([0, 1, 2, 3], 5)
    vectors = behaviour_vectors(user, ad, 10, 5, 4)
    like = vectors @ vectors.T
    assert like[0, 1] > 0.99 and like[2, 3] > 0.99 and abs(like[0, 2]) < 0.01
    assert not vectors[4].any()
    assert joined(vectors, vectors).shape == (5, 8)


@pytest.mark.parametrize("texts", [["one"], ["one", "two"], ["same", "same"], []])
def test_too_little_text_is_zeros_or_alike(texts: list[str]) -> None:
    assert text_vectors(texts, 4).shape == (len(texts), 4)


def test_clusters_as_identifiers() -> None:
    vectors = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    found = cluster_identifiers(vectors, 3, first_token=10)
    assert found.branching is not None
    bounds = 10 + np.cumsum([0, *found.branching])
    rows = np.array(found.of_ad)
    assert all((rows[:, k] >= bounds[k]).all() and (rows[:, k] < bounds[k + 1]).all() for k in range(3))
    assert build_tree(rows, range(300)).ads == 300
    with pytest.raises(TreeError, match="3 levels are needed"):
        cluster_identifiers(vectors, 3, 0, [300])


def characters(text: str) -> list[int]:
    return [ord(c) for c in text]


def test_titles_as_identifiers() -> None:
    found = title_identifiers(["Up", "Upon", "Up", "Up", "Up (2)"], characters, end=0)
    texts = ["".join(map(chr, identifier[:-1])) for identifier in found.of_ad]
    assert texts == ["Up", "Upon", "Up (2)", "Up (3)", "Up (2) (2)"]
    assert build_tree(found.of_ad, range(5)).ads == 5
    with pytest.raises(TreeError, match="title '':"):
        title_identifiers([""], characters, end=0)
    with pytest.raises(TreeError, match="and not 85, the end"):
        title_identifiers(["Up"], characters, end=85)
    with pytest.raises(TreeError, match="title 'Upon': 5 tokens found with its end, 4 allowed"):
        title_identifiers(["Up", "Upon"], characters, end=0, longest=4)


def test_new_ads_sit_beside_their_neighbours() -> None:
    """Ads 0 and 1 at the left, 2 and 3 at the right; each level-1 cluster has room for one more."""
    vectors = np.array([[-1, 0], [-0.9, 0.1], [1, 0], [0.9, 0.1]], np.float32)
    found = cluster_identifiers(vectors, 2, 5, [2, 3])
    tree = build_tree(found.of_ad, range(4))
    by_leaf = vectors[tree.ad]
    left, right = found.of_ad[0][0], found.of_ad[2][0]
    new = np.array([[1, 0.05], [-1, 0.05]], np.float32)
    placed = place(tree, by_leaf, new, [2, 3], 5)
    assert [identifier[0] for identifier in placed] == [right, left]
    grown = build_tree([*found.of_ad, *placed], range(6))
    assert grown.ads == 6
    # A third at the right finds its cluster full and goes to the left; there is one place more in all.
    with pytest.raises(TreeError, match="the tree is full: 6 ads, room for 6"):
        place(tree, by_leaf, np.array([[1, 0], [1, 0], [1, 0]], np.float32), [2, 3], 5)
    two = place(tree, by_leaf, np.array([[1, 0], [1, 0]], np.float32), [2, 3], 5)
    assert [identifier[0] for identifier in two] == [right, left]


def test_a_new_ad_opens_a_new_branch_where_its_own_is_full() -> None:
    tree = build_tree([[0, 2], [0, 3]], [0, 1])
    assert place(tree, np.ones((2, 1), np.float32), np.ones((1, 1), np.float32), [2, 2], 0) == [[1, 2]]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_a_tree_from_which_ads_were_removed_takes_new_ones_until_it_is_full(branching: list[int], seed: int) -> None:
    """Also below a branch that is gone, and that the first of the new ads opens again."""
    random = np.random.default_rng(seed)
    room = math.prod(branching)
    vectors = random.normal(size=(room, 3)).astype(np.float32)
    of_ad = cluster_identifiers(vectors, len(branching), 5, branching).of_ad
    kept = np.sort(random.choice(room, random.integers(1, room + 1), replace=False))
    tree = build_tree([of_ad[ad] for ad in kept], kept)
    new = random.normal(size=(room - len(kept), 3)).astype(np.float32)
    placed = place(tree, vectors[tree.ad], new, branching, 5)
    grown = build_tree([*(of_ad[ad] for ad in kept), *placed], [*kept, *range(room, room + len(new))])
    assert grown.ads == room and sorted(grown.identifiers()) == sorted(of_ad)
    with pytest.raises(TreeError, match=f"the tree is full: {room} ads, room for {room}"):
        place(grown, np.zeros((room, 3), np.float32), new[:1] if len(new) else vectors[:1], branching, 5)
