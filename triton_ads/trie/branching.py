"""How many children a node of each level has: wide at the top, narrowing below.

A wide first level costs nothing (its scores come from the prompt's own forward) and leaves few ads below each survivor
of a beam, so that what remains can be verified in one pass. A uniform tree, which plain recursive clustering gives,
leaves thousands and gains nothing.
"""

import math

from triton_ads.trie.build import TreeError

#: The most children of the root, unless more are asked for: each is a token of the vocabulary.
WIDEST = 4096


def choose_branching(ads: int, length: int, *, widest: int = WIDEST) -> tuple[int, ...]:
    """Children of a node on every level, with room for `ads` ads: each as wide as the root of the one above.

    >>> choose_branching(1_000_000, 4)
    (1585, 40, 7, 3)
    >>> choose_branching(1_682, 3)
    (70, 9, 3)

    Args:
        ads: how many ads there are.
        length: tokens of an identifier.
        widest: the most children that a node may have.

    Raises:
        TreeError: an argument below 1, or levels too few for so many ads.
    """
    if ads < 1 or length < 1 or widest < 1:
        raise TreeError(f"ads {ads}, length {length}, widest {widest} found; 1 or more is needed of each")
    branching = []
    left = ads
    for below in range(length - 1, -1, -1):
        # left = w * w^(1/2) * w^(1/4) * ... over the levels left
        share = 2**below / (2 ** (below + 1) - 1)
        width = min(widest, math.ceil(left**share - 1e-9))
        branching.append(width)
        left = math.ceil(left / width)
    check_branching(tuple(branching), ads)
    return tuple(branching)


def check_branching(branching: tuple[int, ...], ads: int) -> None:
    """
    Raises:
        TreeError: the branching has a level without a child, or no room for so many ads.
    """
    if not branching or min(branching) < 1:
        raise TreeError(f"branching {list(branching)} found; one level or more, each of 1 or more, is needed")
    room = math.prod(branching)
    if room < ads:
        raise TreeError(f"branching {list(branching)} has room for {room} ads, {ads} were given: add or widen a level")
