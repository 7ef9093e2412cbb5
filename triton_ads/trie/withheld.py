"""Ads that one request must not be answered with, beside those that nobody is."""

# Legend: N ads, D dead nodes, B nodes asked about, E their children.

import numpy as np
from numpy.typing import NDArray

from triton_ads.trie.blocked import Blocked
from triton_ads.trie.tree import Children


class Withheld:
    """The tree of one request: without the blocked ads, without `ad_N`, and without what leads to those alone.

    The blocked ads' mask is shared. What is the request's own is a sorted list of dead nodes, so that it costs in
    proportion to its ads and their depth, whatever the size of the tree.
    """

    def __init__(self, blocked: Blocked, ad_N: NDArray[np.int64]) -> None:
        self._blocked, self._tree = blocked, blocked.tree
        leaf_N, known_N = self._tree.leaves_of(ad_N)
        new_D = np.unique(leaf_N[known_N])
        new_D = new_D[~blocked.dead(new_D)]
        self._dead_D = new_D
        while len(new_D):
            parent = np.unique(self._tree.parent(new_D))
            parent = parent[parent >= 0]
            low, high = self._tree.bounds(parent)
            # Children are contiguous: dead ones are counted between two places of the sorted list.
            own = self._dead_D.searchsorted(high) - self._dead_D.searchsorted(low)
            new_D = parent[own + blocked.gone(parent) == high - low]
            self._dead_D = np.sort(np.concatenate([self._dead_D, new_D]))

    def alive(self, node_B: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which nodes lead to an ad that may be answered, or are one."""
        position_B = self._dead_D.searchsorted(node_B)
        own_B = np.zeros(len(node_B), np.bool_)
        inside_B = position_B < len(self._dead_D)
        own_B[inside_B] = self._dead_D[position_B[inside_B]] == node_B[inside_B]
        return ~(own_B | self._blocked.dead(node_B))

    def children(self, node_B: NDArray[np.int64]) -> Children:
        """The children that lead to an ad that may be answered."""
        children = self._blocked.children(node_B)
        if not len(self._dead_D):
            return children
        low_B, high_B = self._tree.bounds(node_B)
        if not (self._dead_D.searchsorted(high_B) > self._dead_D.searchsorted(low_B)).any():
            return children
        alive_E = self.alive(children.node_E)
        return Children(*(part[alive_E] for part in children))
