"""The tree against a plain dictionary of prefixes, and worked by hand."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.trie import Tree, TreeError, build_tree, load_tree, save_tree

#: The drawing of triton_ads/trie/tree.py, ads 10, 20, 30, in no order.
DRAWN = {10: [7, 2], 30: [9, 5], 20: [9, 2]}


def drawn() -> Tree:
    return build_tree(list(DRAWN.values()), list(DRAWN))


def test_the_drawing() -> None:
    tree = drawn()
    assert tree.token.tolist() == [7, 9, 2, 2, 5]
    assert tree.first.tolist() == [1, 3, 4, 6]
    assert tree.level_start == (0, 1, 3, 6)
    assert (tree.leaf.tolist(), tree.ad.tolist()) == ([3, 4, 5], [10, 20, 30])
    assert (tree.nodes, tree.ads, tree.length, tree.vocabulary) == (6, 3, 2, 10)


def test_leaves_of_several_depths() -> None:
    """root - 1 - 0 (ad 5);  root - 2 - 3 - 0 (ad 6);  root - 2 - 0 (ad 7), 0 ends an identifier."""
    tree = build_tree([[1, 0], [2, 3, 0], [2, 0]], [5, 6, 7])
    assert tree.level_start == (0, 1, 3, 6, 7)
    assert tree.token.tolist() == [1, 2, 0, 0, 3, 0]
    assert tree.first.tolist() == [1, 3, 4, 6, 6, 6, 7]
    assert dict(zip(tree.leaf.tolist(), tree.ad.tolist(), strict=True)) == {3: 5, 4: 7, 6: 6}
    assert tree.is_leaf(np.arange(7)).tolist() == [False, False, False, True, True, False, True]
    assert tree.parent(np.arange(7)).tolist() == [-1, 0, 0, 1, 2, 2, 5]
    # Below the root: the root itself, 1, 2 and 5.
    assert tree.internal_below(np.array([0]), 0).tolist() == [4]
    assert tree.internal_below(np.array([1, 2]), 1).tolist() == [1, 2]
    assert tree.internal_below(np.array([3, 4, 5]), 2).tolist() == [0, 0, 1]


identifiers = st.lists(
    st.lists(st.integers(1, 5), min_size=0, max_size=4).map(lambda tokens: (*tokens, 0)),
    min_size=1,
    max_size=40,
    unique=True,
)
fixed = st.integers(1, 4).flatmap(
    lambda length: st.lists(st.tuples(*[st.integers(0, 3)] * length), min_size=1, max_size=60, unique=True)
)


@given(st.one_of(identifiers, fixed), st.randoms(use_true_random=False))
def test_against_a_dictionary_of_prefixes(ids: list[tuple[int, ...]], random: Any) -> None:
    ads = random.sample(range(-1000, 1000), len(ids))
    tree = build_tree(ids, ads)
    prefixes = sorted({tuple(i[:end]) for i in ids for end in range(len(i) + 1)}, key=lambda p: (len(p), p))
    assert tree.nodes == len(prefixes)
    number = {prefix: node for node, prefix in enumerate(prefixes)}
    for prefix, node in number.items():
        assert tuple(tree.path(node)) == prefix
        assert tree.node_of(list(prefix)) == node
        below = [p for p in prefixes if p[:-1] == prefix and p]
        found = tree.children(np.array([node]))
        assert found.node_E.tolist() == [number[p] for p in below]
        assert found.token_E.tolist() == [p[-1] for p in below]
        internal = {tuple(i[:end]) for i in ids for end in range(len(i)) if tuple(i[: len(prefix)]) == prefix}
        internal = {p for p in internal if len(p) >= len(prefix)}
        assert tree.internal_below(np.array([node]), len(prefix)).tolist() == [len(internal)]
    everything = tree.children(np.arange(tree.nodes))
    assert everything.node_E.tolist() == list(range(1, tree.nodes))
    assert {tuple(i): ad for i, ad in zip(ids, ads, strict=True)} == {
        tuple(i): int(ad) for i, ad in zip(tree.identifiers(), tree.ad, strict=True)
    }
    assert all(tree.leaf_of(ad) == number[tuple(i)] for i, ad in zip(ids, ads, strict=True))
    assert tree.leaf_of(1001) is None


@given(identifiers, st.randoms(use_true_random=False))
def test_order_does_not_matter(ids: list[tuple[int, ...]], random: Any) -> None:
    tree = build_tree(ids, range(len(ids)))
    order = random.sample(range(len(ids)), len(ids))
    other = build_tree([ids[i] for i in order], order)
    assert tree.catalogue == other.catalogue
    assert all(np.array_equal(getattr(tree, n), getattr(other, n)) for n in ("token", "first", "leaf", "ad"))


def test_many_children_at_once() -> None:
    tree = drawn()
    found = tree.children(np.array([2, 3, 1, 2]))
    assert found.parent_E.tolist() == [0, 0, 2, 3, 3]
    assert found.node_E.tolist() == [4, 5, 3, 4, 5]
    assert tree.children(np.array([], np.int64)).node_E.tolist() == []


def test_one_ad() -> None:
    tree = build_tree([[3]], [8])
    assert tree.children(np.array([0])).node_E.tolist() == [1]
    assert tree.ad_of(np.array([1])).tolist() == [8]
    assert tree.internal_below(np.array([0]), 0).tolist() == [1]


@pytest.mark.parametrize("node", [0, 1, 2])
def test_only_leaves_are_ads(node: int) -> None:
    with pytest.raises(ValueError, match=f"node {node} is not a leaf"):
        drawn().ad_of(np.array([3, node]))


@pytest.mark.parametrize(
    ("ids", "ads", "message"),
    [
        ([], [], "none found"),
        ([[1]], [1, 2], "1 identifiers for 2 ads"),
        ([[1], []], [1, 2], "ad 2: its identifier is empty"),
        ([[1], [1]], [1, 2], r"ads 1 and 2 have one identifier, \[1\]"),
        ([[1], [2]], [4, 4], "ad 4 has two identifiers"),
        ([[1, 2], [1]], [4, 5], r"ad 5: its identifier \[1\] is the beginning of that of ad 4, \[1, 2\]"),
        ([[1, 2, 9], [1, 2, 3], [1, 3], [1, 2]], [4, 5, 6, 7], r"ad 7: .* of ad 5, \[1, 2, 3\]"),
        ([[-2]], [4], "ad 4: token -2 found, 0 to 4294967294 allowed"),
        ([[2**32]], [4], "ad 4: token 4294967296 found"),
        ([[1, -1, 2]], [4], "ad 4: its identifier goes on after END"),
    ],
)
def test_what_makes_no_tree(ids: Any, ads: Any, message: str) -> None:
    with pytest.raises(TreeError, match=message):
        build_tree(ids, ads)


def test_rows_with_end_behind_them() -> None:
    assert build_tree(np.array([[1, 0, -1], [2, 3, 0]]), [5, 6]).identifiers() == [[1, 0], [2, 3, 0]]
    with pytest.raises(TreeError, match=r"shape \[2\] found"):
        build_tree(np.array([1, 2]), [5, 6])


def test_large_tokens() -> None:
    tree = build_tree([[70_000], [2**32 - 2]], [1, 2])
    assert tree.token.dtype == np.uint32
    assert tree.identifiers() == [[70_000], [2**32 - 2]]


def test_random_ads_take_few_bytes() -> None:
    random = np.random.default_rng(0)
    rows = np.unique(random.integers(0, 8192, (100_000, 6)), axis=0)
    tree = build_tree(rows, np.arange(len(rows)))
    assert tree.nbytes <= 40 * tree.ads


@given(identifiers)
def test_saved_and_loaded(ids: list[tuple[int, ...]]) -> None:
    tree = build_tree(ids, range(len(ids)))
    with tempfile.TemporaryDirectory() as folder:
        save_tree(tree, Path(folder))
        loaded = load_tree(Path(folder), tree.catalogue)
        assert loaded.level_start == tree.level_start
        assert all(np.array_equal(getattr(tree, n), getattr(loaded, n)) for n in ("token", "first", "leaf", "ad"))
        with pytest.raises(TreeError, match="the tree is of catalogue"):
            load_tree(Path(folder), "0" * 64)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("token", np.array([7, 9, 2], np.uint16)),
        ("token", np.array([7, 9, 2, 2, 5], np.int64)),
        ("first", np.array([1, 3, 9, 6], np.int32)),
        ("first", np.array([1, 3, 2, 6], np.int32)),
        ("first", np.array([2, 3, 4, 6], np.int32)),
        ("leaf", np.array([2, 4, 5], np.int32)),
        ("leaf", np.array([4, 5], np.int32)),
        ("leaf", np.array([3, 4, 6], np.int32)),
        ("leaf", np.array([], np.int32)),
        ("ad", np.array([1], np.int64)),
        ("ad", np.array([70, 80, 70], np.int64)),  # blocked, it would be answered by its other leaf
        ("token", np.array([7, 9, 2, 5, 5], np.uint16)),
        ("token", np.array([9, 7, 2, 2, 5], np.uint16)),
    ],
)
def test_a_damaged_file(tmp_path: Path, name: str, array: np.ndarray) -> None:
    save_tree(drawn(), tmp_path)
    np.save(tmp_path / f"{name}.npy", array)
    with pytest.raises(TreeError, match=name):
        load_tree(tmp_path)


def test_a_missing_or_foreign_tree(tmp_path: Path) -> None:
    with pytest.raises(TreeError, match="no tree"):
        load_tree(tmp_path)
    save_tree(drawn(), tmp_path)
    head = (tmp_path / "tree.json").read_text()
    (tmp_path / "tree.json").write_text(head.replace('"version": 1', '"version": 9'))
    with pytest.raises(TreeError, match="version 9"):
        load_tree(tmp_path)
    (tmp_path / "tree.json").write_text(head.replace("[0, 1, 3, 6]", "[0, 1]"))
    with pytest.raises(TreeError, match="level_start"):
        load_tree(tmp_path)
    (tmp_path / "token.npy").write_bytes(b"no array")
    with pytest.raises(TreeError, match="token"):
        load_tree(tmp_path)
