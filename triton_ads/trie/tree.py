"""The tree as arrays, its nodes numbered breadth first.

    root 0 ── token 7 ── 1 ── token 2 ── 3 (ad)       level     0 | 1 2 | 3 4 5
         └─── token 9 ── 2 ── token 2 ── 4 (ad)       node      0   1 2   3 4 5
                         └─── token 5 ── 5 (ad)       token     -   7 9   2 2 5
                                                      first     1   3 4   6        (the deepest level has no children)

Children of a node are contiguous, `first[n]` to `first[n + 1]`, and so are all its descendants of one level, and all
descendants of a range of nodes of one level. So what lies below a node is counted with one look-up a level.

No identifier is the beginning of another (build.py), so the ads are the leaves, at any depth.
"""

# Legend: n nodes, i internal nodes' bound (nodes above the deepest level), A ads, L longest identifier, B nodes asked
#         about, E their children.

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Children(NamedTuple):
    """Children of some nodes, parent after parent, each parent's by token."""

    parent_E: Ints  # position among the nodes that were asked about
    token_E: Ints
    node_E: Ints


@dataclass(frozen=True)
class Tree:
    """Identifiers of ads. `token`, `first`, `leaf` and `ad` may be memory-mapped."""

    token: NDArray[np.uint16] | NDArray[np.uint32]  # [n - 1], token of node k + 1
    first: NDArray[np.int32]  # [i + 1], first child of every node above the deepest level; then n
    level_start: tuple[int, ...]  # [L + 2], first node of every level; then n
    leaf: NDArray[np.int32]  # [A], the leaves, growing
    ad: NDArray[np.int64]  # [A], the ad of each leaf
    catalogue: str  # sha256 of the identifiers and their ads

    @property
    def nodes(self) -> int:
        return self.level_start[-1]

    @property
    def ads(self) -> int:
        return len(self.leaf)

    @property
    def length(self) -> int:
        """Tokens of the longest identifier."""
        return len(self.level_start) - 2

    @cached_property
    def vocabulary(self) -> int:
        """One more than the largest token."""
        return int(self.token.max()) + 1

    @property
    def nbytes(self) -> int:
        return self.token.nbytes + self.first.nbytes + self.leaf.nbytes + self.ad.nbytes

    def bounds(self, node_B: Ints) -> tuple[Ints, Ints]:
        """First child of every node, and one past its last; equal for a leaf."""
        return self._first(node_B), self._first(node_B + 1)

    def _first(self, node_B: Ints) -> Ints:
        """`first`, continued by n: nodes of the deepest level begin and end where the tree does."""
        return self.first.take(np.minimum(node_B, len(self.first) - 1)).astype(np.int64)

    def children(self, node_B: Ints) -> Children:
        """All children of the nodes."""
        low_B, high_B = self.bounds(node_B)
        count_B = high_B - low_B
        parent_E = np.repeat(np.arange(len(node_B)), count_B)
        # Position within the parent's children: a running number less the number at which the parent begins.
        within_E = np.arange(len(parent_E)) - np.repeat(np.cumsum(count_B) - count_B, count_B)
        node_E = np.repeat(low_B, count_B) + within_E
        return Children(parent_E, self.token.take(node_E - 1).astype(np.int64), node_E)

    def descendants(self, low_B: Ints, high_B: Ints) -> tuple[Ints, Ints]:
        """The range of children of all nodes from `low` to `high`, which are of one level, pair by pair."""
        return self._first(low_B), self._first(high_B)

    def internal_below(self, node_B: Ints, level: int) -> Ints:
        """Internal nodes in the subtree of each node of `level`, itself included: tokens that a model must be run on
        to score every leaf below, since a leaf's score comes from its parent."""
        low_B, high_B = node_B, node_B + 1
        total_B = np.zeros(len(node_B), np.int64)
        for _ in range(level, self.length):
            total_B += self.internal_between(low_B, high_B)
            low_B, high_B = self.descendants(low_B, high_B)
        return total_B

    def internal_between(self, low_B: Ints, high_B: Ints) -> Ints:
        """Internal nodes from `low` to before `high`, pair by pair."""
        return self._internal_before(high_B) - self._internal_before(low_B)

    def _internal_before(self, node_B: Ints) -> Ints:
        """Internal nodes with a smaller number: all nodes less the leaves."""
        if self._one_depth:
            return np.minimum(node_B, self.level_start[-2])
        return node_B - self.leaf.searchsorted(_same(node_B))

    @cached_property
    def _one_depth(self) -> bool:
        """Whether all leaves lie on the deepest level."""
        return self.ads == self.nodes - self.level_start[-2]

    def is_leaf(self, node_B: Ints) -> NDArray[np.bool_]:
        low_B, high_B = self.bounds(node_B)
        return low_B == high_B

    def ad_of(self, leaf_B: Ints) -> NDArray[np.int64]:
        """The ads of leaves.

        Raises:
            ValueError: a node that is no leaf.
        """
        position_B = np.minimum(self.leaf.searchsorted(_same(np.asarray(leaf_B))), self.ads - 1)
        wrong_B = self.leaf[position_B] != leaf_B
        if wrong_B.any():
            raise ValueError(f"node {int(np.asarray(leaf_B)[wrong_B][0])} is not a leaf of the tree")
        return self.ad.take(position_B)

    def leaf_of(self, ad: int) -> int | None:
        """The leaf of an ad; None where the tree has no such ad."""
        leaf, known = self.leaves_of(np.array([ad]))
        return int(leaf[0]) if known[0] else None

    def leaves_of(self, ad_N: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The leaves of ads, and which of them the tree has; the leaf of another ad means nothing."""
        position_N = np.minimum(self.ad.searchsorted(ad_N, sorter=self._ad_order), self.ads - 1)
        position_N = self._ad_order[position_N]
        return self.leaf.take(position_N).astype(np.int64), self.ad.take(position_N) == ad_N

    @cached_property
    def _ad_order(self) -> Ints:
        return np.argsort(self.ad, kind="stable")

    def parent(self, node_B: Ints) -> Ints:
        """Parents; -1 of the root."""
        # A leaf repeats the next node's first child: the last of equals has the child.
        return self.first.searchsorted(_same(node_B), side="right").astype(np.int64) - 1

    def path(self, node: int) -> list[int]:
        """Tokens from the root to a node."""
        tokens: list[int] = []
        while node > 0:
            tokens.append(int(self.token[node - 1]))
            node = int(self.parent(np.array([node]))[0])
        return tokens[::-1]

    def node_of(self, path: list[int]) -> int | None:
        """The node that a path of tokens leads to; None where the tree has no such path."""
        node = 0
        for token in path:
            _, token_E, node_E = self.children(np.array([node]))
            position = int(token_E.searchsorted(token))
            if position == len(token_E) or token_E[position] != token:
                return None
            node = int(node_E[position])
        return node

    def identifiers(self) -> list[list[int]]:
        """Identifier of every ad, in the order of `ad`."""
        return [self.path(int(leaf)) for leaf in self.leaf]


def _same(node_B: Ints) -> NDArray[np.int32]:
    """Nodes as the tree stores them: NumPy searches numbers of another kind in a copy of the whole array."""
    return node_B.astype(np.int32)
