"""Beams: nodes of the tree with their scores, and the choice of the best."""

# Legend: B beams or candidates.

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.serving.target.step import Floats, Ints


@dataclass(frozen=True)
class Beams:
    """Nodes, best first where they were chosen."""

    node_B: Ints
    score_B: Floats  # log-probability of the path
    above_B: Ints  # slot of the node's parent in the decoder

    def __len__(self) -> int:
        return len(self.node_B)

    def take(self, which: Ints | NDArray[np.bool_]) -> "Beams":
        return Beams(self.node_B[which], self.score_B[which], self.above_B[which])

    def with_(self, other: "Beams") -> "Beams":
        return Beams(
            np.concatenate([self.node_B, other.node_B]),
            np.concatenate([self.score_B, other.score_B]),
            np.concatenate([self.above_B, other.above_B]),
        )


def best(score: Floats, node: Ints, count: int) -> Ints:
    """Positions of the `count` highest scores, best first; of equal scores the smaller node goes first."""
    if len(score) > 4 * count:
        # All that reach the score of the last place, ties included; then a short sort.
        last = np.partition(score, len(score) - count)[len(score) - count]
        reach = np.flatnonzero(score >= last)
        return reach[np.lexsort((node[reach], -score[reach]))][:count]
    return np.lexsort((node, -score))[:count]


def choose(beams: Beams, count: int) -> Beams:
    """The best `count`, best first."""
    return beams.take(best(beams.score_B, beams.node_B, count))
