"""Ads that must not be answered: a mask over the nodes, changed at once and without building anything again."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from triton_ads.trie.tree import Children, Tree


class Blocked:
    """Which nodes of a tree still lead to an ad that may be answered; a byte a node, from the first ad blocked on.

    A node is dead when all its children are, so that no search spends a beam on it.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._dead_n: NDArray[np.bool_] | None = None
        self._ads: set[int] = set()

    @property
    def ads(self) -> frozenset[int]:
        return frozenset(self._ads)

    def block(self, ads: Iterable[int]) -> list[int]:
        """Block ads; returns those that the tree does not have."""
        return self._set(ads, dead=True)

    def unblock(self, ads: Iterable[int]) -> list[int]:
        """Let ads be answered again; returns those that the tree does not have."""
        return self._set(ads, dead=False)

    def _set(self, ads: Iterable[int], *, dead: bool) -> list[int]:
        asked = np.fromiter(ads, np.int64)
        leaf, known = self._tree.leaves_of(asked)
        (self._ads.update if dead else self._ads.difference_update)(asked[known].tolist())
        if known.any():
            if self._dead_n is None:
                self._dead_n = np.zeros(self._tree.nodes, np.bool_)
            self._mark(leaf[known], dead, self._dead_n)
        return [int(ad) for ad in asked[~known]]

    def _mark(self, nodes: NDArray[np.int64], dead: bool, dead_n: NDArray[np.bool_]) -> None:
        """Mark leaves, then their ancestors as far up as anything changes."""
        while len(nodes):
            dead_n[nodes] = dead
            nodes = np.unique(self._tree.parent(nodes))
            nodes = nodes[(nodes >= 0) & (dead_n[np.maximum(nodes, 0)] != dead)]
            if dead and len(nodes):
                children = self._tree.children(nodes)
                begins = np.flatnonzero(np.diff(children.parent_E, prepend=-1))
                nodes = nodes[np.logical_and.reduceat(dead_n[children.node_E], begins)]

    def alive(self, children: Children) -> Children:
        """The children that lead to an ad that may be answered."""
        if self._dead_n is None or not self._ads:
            return children
        alive_E = ~self._dead_n[children.node_E]
        return Children(*(part[alive_E] for part in children))
