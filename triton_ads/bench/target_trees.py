"""Trees to measure on: identifiers drawn at random, and trees of a given branching."""

import numpy as np
from numpy.typing import NDArray

from triton_ads.trie import Tree, build_tree

_FIRST_TOKEN = 4  # tokens below are the model's own


def random_tree(ads: int, length: int, vocabulary: int, seed: int = 0) -> Tree:
    """`ads` different identifiers, every token drawn from the whole vocabulary."""
    random = np.random.default_rng(seed)
    rows = np.zeros((0, length), np.int64)
    while len(rows) < ads:
        drawn = random.integers(_FIRST_TOKEN, vocabulary, (ads - len(rows) + 1000, length))
        rows = np.unique(np.concatenate([rows, drawn]), axis=0)
    rows = rows[np.sort(random.permutation(len(rows))[:ads])]
    return build_tree(rows, np.arange(ads))


def shaped_tree(branching: tuple[int, ...], vocabulary: int, seed: int = 0) -> Tree:
    """Every node of level k has `branching[k]` children; a node's tokens are an arithmetic row from a random start."""
    random = np.random.default_rng(seed)
    rows: NDArray[np.int64] = np.zeros((1, 0), np.int64)
    tokens = vocabulary - _FIRST_TOKEN
    for width in branching:
        start = random.integers(0, tokens, (len(rows), 1))
        step = random.integers(1, max(2, tokens // width), (len(rows), 1))
        children = (start + np.arange(width) * step) % tokens + _FIRST_TOKEN
        rows = np.concatenate([np.repeat(rows, width, axis=0), children.reshape(-1, 1)], axis=1)
    return build_tree(rows, np.arange(len(rows)))
