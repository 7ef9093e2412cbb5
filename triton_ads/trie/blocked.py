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
        unknown = []
        for ad in ads:
            leaf = self._tree.leaf_of(ad)
            if leaf is None:
                unknown.append(ad)
                continue
            (self._ads.add if dead else self._ads.discard)(ad)
            self._mark(leaf, dead)
        return unknown

    def _mark(self, node: int, dead: bool) -> None:
        """Mark a leaf, then its ancestors as far up as anything changes."""
        if self._dead_n is None:
            self._dead_n = np.zeros(self._tree.nodes, np.bool_)
        while node >= 0 and self._dead_n[node] != dead:
            self._dead_n[node] = dead
            node = int(self._tree.parent(np.array([node]))[0])
            if node >= 0 and dead:
                low, high = self._tree.bounds(np.array([node]))
                if not self._dead_n[low[0] : high[0]].all():
                    return

    def alive(self, children: Children) -> Children:
        """The children that lead to an ad that may be answered."""
        if self._dead_n is None or not self._ads:
            return children
        alive_E = ~self._dead_n[children.node_E]
        return Children(*(part[alive_E] for part in children))
