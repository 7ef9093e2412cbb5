"""Identifiers from representations: ads that are alike share the beginning of their identifiers.

Hierarchical clustering in the manner of the Differentiable Search Index (arXiv 2202.06991), with two changes: the
branching of each level is chosen (branching.py), and clusters are balanced, so that the tree has no long thin branches
and every ad has an identifier of its own. A cluster is cut in two at a rank of the line between two centroids, which is
the best cut there is for two clusters of given sizes, and again until there are as many as the level has children.
Nothing is random: equal representations give equal identifiers.
"""

# Legend: A ads, D floats of a representation, L levels.

import numpy as np
from numpy.typing import NDArray

from triton_ads.trie.branching import check_branching
from triton_ads.trie.build import TreeError

_POWER_STEPS = 8  # towards the direction of greatest spread, from which the centroids start
_CENTROID_STEPS = 4


def cluster(vectors_AD: NDArray[np.float32], branching: tuple[int, ...]) -> NDArray[np.int64]:
    """Child numbers int64 [A, L] of each ad: on every level its position among the children of its node.

    Siblings' sizes differ by at most one. No two ads have the same numbers.

    Args:
        vectors_AD: what an ad is like; finite.
        branching: children of a node on each level.

    Raises:
        TreeError: no room for so many ads, or vectors that are not finite.
    """
    if vectors_AD.ndim != 2 or not np.isfinite(vectors_AD).all():
        raise TreeError(f"representations: finite floats [ads, width] needed, found shape {list(vectors_AD.shape)}")
    check_branching(branching, len(vectors_AD))
    numbers_AL = np.zeros((len(vectors_AD), len(branching)), np.int64)
    groups = [np.arange(len(vectors_AD))]
    for level, width in enumerate(branching):
        finer = []
        for group in groups:
            children = _parts(vectors_AD, group, min(width, len(group)))
            for number, child in enumerate(children):
                numbers_AL[child, level] = number
            finer += children
        groups = finer
    return numbers_AL


def _parts(vectors_AD: NDArray[np.float32], group: NDArray[np.int64], parts: int) -> list[NDArray[np.int64]]:
    """`group` in parts of equal size, up to one."""
    if parts == 1:
        return [group]
    left = parts // 2
    # Sizes as equal parts would have them: the first `len % parts` parts are the larger ones.
    each, larger = divmod(len(group), parts)
    size = left * each + min(left, larger)
    order = _order(vectors_AD[group], size)
    return _parts(vectors_AD, group[order[:size]], left) + _parts(vectors_AD, group[order[size:]], parts - left)


def _order(x_AD: NDArray[np.float32], size: int) -> NDArray[np.int64]:
    """Positions in such an order that the first `size` are one cluster and the others another."""
    if len(x_AD) == 2:
        return np.arange(2)
    centred_AD: NDArray[np.float64] = x_AD.astype(np.float64) - x_AD.mean(axis=0, dtype=np.float64)
    direction_D = _spread(centred_AD)
    order = np.arange(len(x_AD))
    for _ in range(_CENTROID_STEPS):
        # Stable: of equal ads the earlier goes first.
        order = np.argsort(np.round(centred_AD @ direction_D, 9), kind="stable")
        between_D = centred_AD[order[size:]].mean(axis=0) - centred_AD[order[:size]].mean(axis=0)
        if not between_D.any():  # all alike
            break
        direction_D = between_D / np.linalg.norm(between_D)
    return order


def _spread(x_AD: NDArray[np.float64]) -> NDArray[np.float64]:
    """The direction of greatest spread, roughly; its sign such that its largest component is positive."""
    direction_D = x_AD[np.square(x_AD).sum(axis=1).argmax()].copy()
    for _ in range(_POWER_STEPS):
        length = np.linalg.norm(direction_D)
        if length == 0:
            break
        direction_D = x_AD.T @ (x_AD @ (direction_D / length))
    length = np.linalg.norm(direction_D)
    return direction_D / length * np.sign(direction_D[np.abs(direction_D).argmax()]) if length else direction_D


def to_tokens(numbers_AL: NDArray[np.int64], branching: tuple[int, ...], first_token: int = 0) -> NDArray[np.int64]:
    """Tokens int64 [A, L]: every level has tokens of its own, `sum(branching)` in all.

    >>> to_tokens(np.array([[0, 1], [2, 0]]), (3, 2), first_token=10)
    array([[10, 14],
           [12, 13]])
    """
    offsets_L = first_token + np.concatenate([[0], np.cumsum(branching)[:-1]])
    return numbers_AL + offsets_L
