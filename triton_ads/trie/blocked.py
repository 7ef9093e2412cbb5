"""Ads that nobody must be answered with: a mask over the nodes, changed at once and without building anything again."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from triton_ads.trie.tree import Children, Tree


class Living(Protocol):
    """What of a tree leads to an ad that may be answered: `Blocked`, or `Withheld` for one request (withheld.py)."""

    def children(self, node_B: NDArray[np.int64]) -> Children:
        """The children of the nodes that do."""


class Blocked:
    """Which nodes of a tree are dead: blocked ads, and nodes all of whose children are dead, so that no search spends a
    beam on them.

    From the first ad blocked on it takes a byte a node, and four an internal node. A change costs what it concerns: the
    ads that are blocked or unblocked, and their ancestors as far up as anything changes.
    """

    def __init__(self, tree: Tree, ads: Iterable[int] = ()) -> None:
        self.tree = tree
        self._ads: set[int] = set()
        self._dead_n: NDArray[np.bool_] | None = None
        self._gone_i = np.zeros(0, np.int32)  # dead children of every node above the deepest level
        self.block(ads)

    @property
    def ads(self) -> frozenset[int]:
        return frozenset(self._ads)

    def block(self, ads: Iterable[int]) -> list[int]:
        """Block ads; returns those that the tree does not have."""
        return self._set(ads, dead=True)

    def unblock(self, ads: Iterable[int]) -> list[int]:
        """Let ads be answered again; returns those that the tree does not have."""
        return self._set(ads, dead=False)

    def replace(self, ads: Iterable[int]) -> None:
        """Block these ads and no others."""
        wanted = set(ads)
        self.unblock(self._ads - wanted)
        self.block(wanted - self._ads)

    def dead(self, node_B: NDArray[np.int64]) -> NDArray[np.bool_]:
        if self._dead_n is None or not self._ads:
            return np.zeros(len(node_B), np.bool_)
        return self._dead_n.take(node_B)

    def gone(self, node_B: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many children of internal nodes are dead."""
        if self._dead_n is None or not self._ads:
            return np.zeros(len(node_B), np.int64)
        return self._gone_i.take(node_B).astype(np.int64)

    def children(self, node_B: NDArray[np.int64]) -> Children:
        """The children that lead to an ad that may be answered."""
        children = self.tree.children(node_B)
        if self._dead_n is None or not self._ads:
            return children
        alive_E = ~self._dead_n.take(children.node_E)
        return children if alive_E.all() else Children(*(part[alive_E] for part in children))

    def _set(self, ads: Iterable[int], *, dead: bool) -> list[int]:
        asked = np.fromiter(ads, np.int64)
        leaf, known = self.tree.leaves_of(asked)
        (self._ads.update if dead else self._ads.difference_update)(asked[known].tolist())
        if known.any():
            if self._dead_n is None:
                self._dead_n = np.zeros(self.tree.nodes, np.bool_)
                self._gone_i = np.zeros(self.tree.level_start[-2], np.int32)
            self._mark(np.unique(leaf[known]), dead, self._dead_n)
        return [int(ad) for ad in asked[~known]]

    def _mark(self, nodes: NDArray[np.int64], dead: bool, dead_n: NDArray[np.bool_]) -> None:
        """Mark nodes, then their ancestors as far up as anything changes."""
        nodes = nodes[dead_n[nodes] != dead]
        while len(nodes):
            dead_n[nodes] = dead
            parent, count = np.unique(self.tree.parent(nodes), return_counts=True)
            if parent[0] < 0:  # the root's
                parent, count = parent[1:], count[1:]
            self._gone_i[parent] += count.astype(np.int32) if dead else -count.astype(np.int32)
            low, high = self.tree.bounds(parent)
            nodes = parent[self._gone_i[parent] == high - low] if dead else parent[dead_n[parent]]
