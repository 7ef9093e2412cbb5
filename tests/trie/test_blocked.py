"""Blocked ads and those that one request must not get, against sets of prefixes."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.trie import Blocked, Tree, Withheld, build_tree

Ids = list[tuple[int, ...]]
identifiers = st.lists(
    st.lists(st.integers(1, 4), max_size=4).map(lambda tokens: (*tokens, 0)), min_size=1, max_size=40, unique=True
)
fixed = st.integers(1, 4).flatmap(
    lambda length: st.lists(st.tuples(*[st.integers(0, 3)] * length), min_size=1, max_size=60, unique=True)
)
catalogues = st.one_of(identifiers, fixed)


def drawn() -> Tree:
    """The drawing of triton_ads/trie/tree.py: ad 10 below node 1, ads 20 and 30 below node 2."""
    return build_tree([[7, 2], [9, 2], [9, 5]], [10, 20, 30])


def leading_to(ids: Ids, left: set[int]) -> set[tuple[int, ...]]:
    """Every beginning of an identifier of the ads that are left."""
    return {tuple(ids[ad][:end]) for ad in left for end in range(1, len(ids[ad]) + 1)}


def paths(tree: Tree, nodes: Any) -> set[tuple[int, ...]]:
    return {tuple(tree.path(int(node))) for node in nodes}


@given(catalogues, st.randoms(use_true_random=False))
def test_blocked_ads_and_what_leads_to_them_alone(ids: Ids, random: Any) -> None:
    tree, every = build_tree(ids, range(len(ids))), set(range(len(ids)))
    blocked, now = Blocked(tree), set()
    for _ in range(5):
        chosen = {ad for ad in every if random.random() < 0.6}
        change = random.choice(["block", "unblock", "replace"])
        if change == "block":
            assert blocked.block(chosen) == []
            now |= chosen
        elif change == "unblock":
            assert blocked.unblock(chosen) == []
            now -= chosen
        else:
            blocked.replace(chosen)
            now = chosen
        assert blocked.ads == now
        everywhere = np.arange(tree.nodes)
        found = blocked.children(everywhere)
        assert paths(tree, found.node_E) == leading_to(ids, every - now)
        assert found.token_E.tolist() == tree.token[found.node_E - 1].tolist()
        internal = everywhere[~tree.is_leaf(everywhere)]
        gone = tree.bounds(internal)[1] - tree.bounds(internal)[0]
        gone -= np.bincount(found.parent_E, minlength=tree.nodes)[internal]
        assert blocked.gone(internal).tolist() == gone.tolist()
        assert Blocked(tree, now).dead(everywhere).tolist() == blocked.dead(everywhere).tolist()


@given(catalogues, st.randoms(use_true_random=False))
def test_a_requests_own_beside_the_blocked(ids: Ids, random: Any) -> None:
    """As if all of them were blocked, without a change of the shared mask."""
    tree = build_tree(ids, range(len(ids)))
    blocked = Blocked(tree)
    for _ in range(3):
        blocked.replace({ad for ad in range(len(ids)) if random.random() < 0.3})
        own = [ad for ad in range(-2, len(ids) + 2) if random.random() < 0.5]
        before = blocked.dead(np.arange(tree.nodes))
        withheld = Withheld(blocked, np.array(own, np.int64))
        everywhere = np.arange(tree.nodes)
        left = set(range(len(ids))) - blocked.ads - set(own)
        alive = leading_to(ids, left)
        found = withheld.children(everywhere)
        assert paths(tree, found.node_E) == alive
        for asked in (everywhere[::-1], everywhere[::3]):
            assert paths(tree, withheld.children(asked).node_E) == {
                path for path in alive if tree.node_of(list(path[:-1])) in asked
            }
        assert paths(tree, everywhere[1:][withheld.alive(everywhere[1:])]) == alive
        assert withheld.alive(np.array([0])).tolist() == [bool(left)]
        np.testing.assert_array_equal(blocked.dead(everywhere), before)


def test_worked_by_hand() -> None:
    tree = drawn()
    blocked = Blocked(tree)
    assert blocked.block([20, 99]) == [99]
    assert blocked.children(np.array([2])).node_E.tolist() == [5]
    # With ad 30 nothing is left below node 2: the root has one child.
    withheld = Withheld(blocked, np.array([30, 77]))
    assert withheld.children(np.array([0])).node_E.tolist() == [1]
    assert withheld.alive(np.arange(6)).tolist() == [True, True, False, True, False, False]
    assert Withheld(blocked, np.array([20])).children(np.array([0])).node_E.tolist() == [1, 2]
    assert Withheld(blocked, np.array([10, 30])).children(np.array([0])).node_E.tolist() == []
    assert blocked.unblock([20]) == []
    assert Withheld(blocked, np.zeros(0, np.int64)).children(np.array([2])).node_E.tolist() == [4, 5]
