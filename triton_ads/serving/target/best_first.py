"""The true best of the whole tree: best-first search, a batch of nodes a forward.

A prefix bounds all that lies below it. So the open prefixes are run best first, until none is above the B-th
identifier that was found. How long that takes depends on the model; it is for offline use and for tests.
"""

import heapq

import numpy as np

from triton_ads.serving.target.beams import Beams, choose
from triton_ads.serving.target.layers import survivors
from triton_ads.serving.target.search import Found, Search, first_level
from triton_ads.serving.target.step import Step
from triton_ads.trie import Living, Tree


def best_first(tree: Tree, living: Living, beam: int, width: int = 32) -> Search:
    """The `beam` ads of highest score, or all that there are.

    Args:
        width: the most nodes a forward runs.
    """
    beams = yield from first_level(tree, living, tree.nodes)
    found = choose(beams.take(tree.is_leaf(beams.node_B)), beam)
    open_: list[tuple[float, int, int]] = []  # minus the score, node, slot of the parent
    _push(open_, beams.take(~tree.is_leaf(beams.node_B)))
    slots = forwards = 0
    while open_:
        bound = found.score_B[-1] if len(found) == beam else -np.inf
        running = _pop(open_, width, float(bound))
        if not len(running):
            break
        children = living.children(running.node_B)
        token_T = tree.token.take(running.node_B - 1).astype(np.int64)
        logp = yield Step(token_T, running.above_B, children.parent_E, children.token_E)
        score = running.score_B[children.parent_E] + logp
        candidates = Beams(children.node_E, score, slots + children.parent_E)
        leaf = tree.is_leaf(candidates.node_B)
        found = choose(found.with_(candidates.take(leaf)), beam)
        _push(open_, candidates.take(~leaf))
        slots, forwards = slots + len(running), forwards + 1
    return Found(found.node_B, found.score_B, [survivors(found.node_B, found.score_B)], forwards, slots, 0, None, 0)


def _push(open_: list[tuple[float, int, int]], beams: Beams) -> None:
    for score, node, above in zip(beams.score_B.tolist(), beams.node_B.tolist(), beams.above_B.tolist(), strict=True):
        heapq.heappush(open_, (-score, node, above))


def _pop(open_: list[tuple[float, int, int]], width: int, bound: float) -> Beams:
    """The best open nodes that still reach `bound`."""
    taken: list[tuple[float, int, int]] = []
    while open_ and len(taken) < width and -open_[0][0] >= bound:
        taken.append(heapq.heappop(open_))
    scores, nodes, slots = zip(*taken, strict=True) if taken else ((), (), ())
    return Beams(np.array(nodes, np.int64), -np.array(scores, np.float64), np.array(slots, np.int64))
