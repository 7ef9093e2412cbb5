"""When to stop stepping and score all that is left in one forward.

A forward of T tokens takes a + b T milliseconds, calibrated on the machine (calibrate.py). After each level the search
knows its survivors, and the tree knows what lies below them. So the cost of each plan is predicted:

    verify now           a + b C            C internal nodes below the survivors: leaves are free
    j more steps first   sum of a + b n, then a + b C_j

where C_j is what lies below as many nodes as there are beams, j levels down, if they were average ones. The search
verifies when no later moment is cheaper.

Confidence: log-probabilities only fall, so a survivor that is already below the final B-th score need not be verified.
That score is predicted from earlier requests: how far below the best survivor of the level it ended. The prediction
decides what is run first; whatever it says, verification.py runs all that could matter.
"""

# Legend: B survivors, L levels of the tree.

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from triton_ads.serving.target.beams import Beams
from triton_ads.serving.target.step import Ints
from triton_ads.trie import Tree

_REMEMBERED = 64  # requests, per level


@dataclass(frozen=True)
class ForwardCost:
    """Milliseconds of a forward of T tokens: `fixed_ms + token_ms * T`."""

    fixed_ms: float
    token_ms: float

    def __call__(self, tokens: float) -> float:
        return self.fixed_ms + self.token_ms * tokens


@dataclass
class Confidence:
    """How far below the best survivor of a level the final B-th score ends, as seen in earlier requests."""

    _gaps: dict[int, deque[float]] = field(default_factory=dict)

    def least_score(self, level: int, best: float) -> float:
        """The score below which a survivor of `level` is not expected to matter; -inf while nothing is known."""
        seen = self._gaps.get(level)
        return best + min(seen) if seen and len(seen) == _REMEMBERED else -np.inf

    def saw(self, level: int, best: float, last: float) -> None:
        self._gaps.setdefault(level, deque(maxlen=_REMEMBERED)).append(last - best)


@dataclass(frozen=True)
class Plan:
    """What the trigger decided at a level."""

    verify: bool
    first_B: np.ndarray  # bool: which survivors to verify first
    tokens: int  # nodes below those
    predicted_ms: float  # of the cheapest plan


class Trigger:
    """Decides for one tree and one machine.

    Args:
        cost: of a forward.
        most: nodes that a verification may run; where there are more below the survivors, the search steps on.
        at: a fixed level at which to verify, for measurements; 0: never.
        steady: decide as if all survivors had to be verified, so that the level does not depend on earlier requests:
            for mode `exact`, whose answer depends on the level.
    """

    def __init__(
        self, tree: Tree, cost: ForwardCost, *, most: int = 1_000_000, at: int | None = None, steady: bool = False
    ) -> None:
        self._tree, self._cost, self._most, self._at, self._steady = tree, cost, most, at, steady
        self.confidence = Confidence()

    def plan(self, level: int, beams: Beams, inner_B: np.ndarray, beam: int) -> Plan:
        """
        Args:
            level: of the survivors.
            beams: all of them, best first, finished ones included.
            inner_B: bool [B], which are not finished.
            beam: how many are wanted.
        """
        expected_B = inner_B & (beams.score_B >= self.confidence.least_score(level, float(beams.score_B[0])))
        first_B = expected_B if expected_B.any() else inner_B
        below_B = np.zeros(len(beams), np.int64)
        below_B[inner_B] = self._tree.internal_below(beams.node_B[inner_B], level)
        every, tokens = int(below_B.sum()), int(below_B[first_B].sum())
        now_ms = self._cost(every if self._steady else tokens)
        later_ms = self._later(beams.node_B[inner_B], level, beam)
        verify = level == self._at if self._at is not None else now_ms <= later_ms
        return Plan(verify and every <= self._most, first_B, tokens, min(now_ms, later_ms))

    def _later(self, node_B: Ints, level: int, beam: int) -> float:
        """The cheapest plan that takes one more step at least."""
        tree, low_B, high_B = self._tree, node_B, node_B + 1
        # Of every level from this one down: nodes below the survivors, and internal ones among them.
        nodes, internal = [], []
        for _ in range(level, tree.length + 1):
            nodes.append(int((high_B - low_B).sum()))
            internal.append(int(tree.internal_between(low_B, high_B).sum()))
            low_B, high_B = tree.descendants(low_B, high_B)
        spent, cheapest = 0.0, np.inf
        running = float(internal[0])
        for step in range(1, len(nodes)):
            spent += self._cost(running)
            share = min(1.0, beam / nodes[step]) if nodes[step] else 0.0
            left = share * sum(internal[step:])
            cheapest = min(cheapest, spent + (self._cost(left) if left >= 1 else 0.0))
            if left < 1:
                break
            running = share * internal[step]
        return float(cheapest)
