"""What a search has scored, as layers of nodes: how log-probabilities add up, and which leaves are best.

    layer 0   survivors       log-probability of the whole path from the root
    layer 1   their children  log-probability after the parent
    ...

Both sides of the wire use it: the search while it verifies, and the verifier on what it was sent (docs/wire.md).
"""

# Legend: T nodes of all layers, B leaves of an answer.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from triton_ads.serving.target.beams import best
from triton_ads.serving.target.step import Floats, Ints
from triton_ads.trie import Tree, Withheld

Mode = Literal["beam", "exact"]
#: As a parent on the wire: the node is a survivor.
SURVIVOR = -1


@dataclass(frozen=True)
class Layer:
    """Nodes, each with its log-probability and its parent's position in the layer above."""

    node: Ints
    logp: Floats
    parent: Ints


def survivors(node_B: Ints, score_B: Floats) -> Layer:
    """The first layer."""
    return Layer(node_B, score_B, np.full(len(node_B), SURVIVOR, np.int64))


def scores(layers: Sequence[Layer]) -> list[Floats]:
    """Log-probability of the whole path to every node: from parent to child they add up."""
    found = [layers[0].logp]
    for layer in layers[1:]:
        found.append(found[-1][layer.parent] + layer.logp)
    return found


def best_leaves(tree: Tree, layers: Sequence[Layer], beam: int, mode: Mode) -> tuple[Ints, Floats]:
    """Leaves best first. In mode `beam` only what is among the best of its level, and of what is finished, goes on."""
    node, score = np.zeros(0, np.int64), np.zeros(0)  # finished
    survived = np.zeros(0, np.bool_)
    for k, (layer, score_of) in enumerate(zip(layers, scores(layers), strict=True)):
        here = np.flatnonzero(survived[layer.parent]) if k else np.arange(len(layer.node))
        rival_node = np.concatenate([node, layer.node[here]])
        rival_score = np.concatenate([score, score_of[here]])
        kept = best(rival_score, rival_node, beam) if mode == "beam" else np.arange(len(rival_node))
        new = here[kept[kept >= len(node)] - len(node)]
        old = kept[kept < len(node)]
        leaf = tree.is_leaf(layer.node[new])
        node = np.concatenate([node[old], layer.node[new[leaf]]])
        score = np.concatenate([score[old], score_of[new[leaf]]])
        survived = np.zeros(len(layer.node), np.bool_)
        survived[new[~leaf]] = True
    order = best(score, node, beam)
    return node[order], score[order]


def flattened(layers: Sequence[Layer]) -> tuple[Ints, Ints, Floats]:
    """Nodes, positions of their parents and log-probabilities, [T] each, layer after layer."""
    begins = np.cumsum([0, *(len(layer.node) for layer in layers)])
    parents = [layers[0].parent, *(begins[k] + layer.parent for k, layer in enumerate(layers[1:]))]
    return (
        np.concatenate([layer.node for layer in layers]),
        np.concatenate(parents),
        np.concatenate([layer.logp for layer in layers]),
    )


def layered(node_T: Ints, parent_T: Ints, logp_T: Floats) -> list[Layer]:
    """The layers that were flattened.

    Raises:
        ValueError: a parent does not stand before its children, or layers are mixed.
    """
    count = int((parent_T == SURVIVOR).sum())
    layers = [survivors(node_T[:count], logp_T[:count])]
    above, begin = 0, count
    if (parent_T[:count] != SURVIVOR).any():
        raise ValueError("parents: survivors (-1) must come first")
    while begin < len(node_T):
        own = parent_T[begin:]
        # Those whose parent lies in the layer above; the next layer's lie behind.
        size = int((own >= begin).argmax()) if (own >= begin).any() else len(own)
        if not size or (own[:size] < above).any():
            position = begin + int((own[:size] < above).argmax()) if size else begin
            raise ValueError(
                f"parents: {parent_T[position]} found at position {position}, {above} to {begin - 1} allowed"
            )
        end = begin + size
        layers.append(Layer(node_T[begin:end], logp_T[begin:end], own[:size] - above))
        above, begin = begin, end
    return layers


def within(tree: Tree, layers: Sequence[Layer]) -> list[Layer]:
    """What of the layers is in the tree: nodes that it has, each below the parent that is given for it."""
    kept: list[Layer] = []
    position = np.zeros(0, np.int64)  # of each node of the layer above among those kept; -1: not kept
    for k, layer in enumerate(layers):
        right = (layer.node > 0) & (layer.node < tree.nodes)
        if k:
            right &= position[layer.parent] >= 0
            known = np.flatnonzero(right)
            right[known] = tree.parent(layer.node[known]) == layers[k - 1].node[layer.parent[known]]
        parent = position[layer.parent[right]] if k else layer.parent[right]
        kept.append(Layer(layer.node[right], layer.logp[right], parent))
        position = np.where(right, np.cumsum(right) - 1, -1)
    return kept


def without(layers: Sequence[Layer], withheld: Withheld) -> list[Layer]:
    """The layers without what must not be answered, and without what leads to that alone."""
    kept: list[Layer] = []
    position = np.zeros(0, np.int64)
    for k, layer in enumerate(layers):
        stays = withheld.alive(layer.node)  # a node that is alive has a parent that is
        parent = position[layer.parent[stays]] if k else layer.parent[stays]
        kept.append(Layer(layer.node[stays], layer.logp[stays], parent))
        position = np.cumsum(stays) - 1
    return kept
