"""Scoring all that lies below the survivors in one forward.

Every internal node below a survivor is run, parents before children, and asked for its children's log-probabilities; a
leaf's score comes from its parent. So the forward is linear in the internal nodes, and leaves are free.

What the trigger expects to matter is run first. The B-th score of what was found then bounds the rest: a survivor below
it cannot come back, since log-probabilities only fall. Those that still can are run in a second forward. (With equal
scores too, so that ties end as they would without.)
"""

# Legend: B survivors, T nodes run, E children asked for, level k of the subtree: 0 the survivors.

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.serving.target.beams import Beams
from triton_ads.serving.target.layers import Layer, Mode, best_leaves, survivors
from triton_ads.serving.target.step import Floats, Ints, Step
from triton_ads.trie import Children, Living, Tree


@dataclass(frozen=True)
class Verified:
    """The outcome: leaves best first, and what it took."""

    node_B: Ints
    score_B: Floats
    layers: list[Layer]  # all that was scored, the survivors first
    forwards: int
    tokens: int


def verify(
    tree: Tree, living: Living, beams: Beams, first_B: NDArray[np.bool_], beam: int, mode: Mode, slots: int
) -> Generator[Step, Floats, Verified]:
    """The best `beam` leaves at or below `beams`.

    Args:
        beams: survivors, best first; leaves among them are finished.
        first_B: bool [B], which to run first.
        mode: `exact`: the best of all leaves below; `beam`: those that a beam search would have come to.
        slots: nodes that were kept before.
    """
    layers = [survivors(beams.node_B, beams.score_B)]
    inner_B = ~tree.is_leaf(beams.node_B)
    wanted_B, done_B = first_B & inner_B, ~inner_B
    forwards = tokens = 0
    while True:
        if wanted_B.any():
            found, ran = yield from _subtrees(tree, living, beams, np.flatnonzero(wanted_B), slots + tokens)
            layers = _merged(layers, found)
            forwards, tokens = forwards + 1, tokens + ran
            done_B |= wanted_B
        node_B, score_B = best_leaves(tree, layers, beam, mode)
        bound = score_B[-1] if len(score_B) == beam else -np.inf
        wanted_B = ~done_B & (beams.score_B >= bound)
        if not wanted_B.any():
            return Verified(node_B, score_B, layers, forwards, tokens)


def _subtrees(
    tree: Tree, living: Living, beams: Beams, which_B: Ints, slots: int
) -> Generator[Step, Floats, tuple[list[Layer], int]]:
    """Layers below the survivors `which_B`, in one forward; of the first layer, parents are positions of `beams`."""
    running = which_B  # positions in the layer above of the nodes that are run
    node, above = beams.node_B[which_B], beams.above_B[which_B]
    tokens, parents, rows, edges = [], [], [], []
    count = 0
    while len(node):
        children = living.children(node)
        tokens.append(tree.token.take(node - 1).astype(np.int64))
        parents.append(above)
        rows.append(count + children.parent_E)
        edges.append((running, children))
        above_E = slots + count + children.parent_E
        count += len(node)
        running = np.flatnonzero(~tree.is_leaf(children.node_E))
        node, above = children.node_E[running], above_E[running]
    asked = np.concatenate([children.token_E for _, children in edges])
    logp = yield Step(np.concatenate(tokens), np.concatenate(parents), np.concatenate(rows), asked)
    return _layers(edges, logp), count


def _layers(edges: list[tuple[Ints, Children]], logp: Floats) -> list[Layer]:
    layers, begin = [], 0
    for running, children in edges:
        end = begin + len(children.node_E)
        layers.append(Layer(children.node_E, logp[begin:end], running[children.parent_E]))
        begin = end
    return layers


def _merged(layers: list[Layer], found: list[Layer]) -> list[Layer]:
    """`found` below the survivors, beside what was found before."""
    merged = [layers[0]]
    offset = 0
    for k in range(max(len(layers) - 1, len(found))):
        old = layers[k + 1] if k + 1 < len(layers) else None
        new = found[k] if k < len(found) else None
        shifted = Layer(new.node, new.logp, new.parent + offset) if new else None
        offset = len(old.node) if old else 0
        parts = [layer for layer in (old, shifted) if layer is not None]
        merged.append(
            Layer(
                np.concatenate([part.node for part in parts]),
                np.concatenate([part.logp for part in parts]),
                np.concatenate([part.parent for part in parts]),
            )
        )
    return merged
