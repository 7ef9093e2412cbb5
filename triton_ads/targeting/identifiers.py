"""Identifiers of ads: numbers of clusters, or titles as text."""

# Legend: A ads, L tokens of an identifier, D floats of a representation.

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.trie.branching import choose_branching
from triton_ads.trie.build import TreeError
from triton_ads.trie.cluster import cluster, to_tokens
from triton_ads.trie.tree import Tree


@dataclass(frozen=True)
class Identifiers:
    """Identifier of each ad, in the order in which the ads were given."""

    of_ad: list[list[int]]
    branching: tuple[int, ...] | None = None  # of clusters


def cluster_identifiers(
    vectors_AD: NDArray[np.float32], length: int, first_token: int, branching: Sequence[int] | None = None
) -> Identifiers:
    """Identifiers of `length` tokens, every level with tokens of its own from `first_token` on.

    Args:
        branching: children of a node on each level; by default as wide at the top as `choose_branching` says.

    Raises:
        TreeError: a branching of another length, or without room for all ads.
    """
    if branching is not None and len(branching) != length:
        raise TreeError(f"branching {list(branching)} found, {length} levels are needed")
    widths = tuple(branching) if branching is not None else choose_branching(len(vectors_AD), length)
    tokens_AL = to_tokens(cluster(vectors_AD, widths), widths, first_token)
    return Identifiers(tokens_AL.tolist(), widths)


def title_identifiers(
    titles: Sequence[str], encode: Callable[[str], list[int]], end: int, longest: int | None = None
) -> Identifiers:
    """Titles as tokens, each ended by `end`; of equal titles the second is written "title (2)", and so on.

    White space is one space: an end of a line would end the title.

    Args:
        longest: the most tokens of an identifier, its end included; by default any number.

    Raises:
        TreeError: a title that has no tokens, too many, or holds the end token.
    """
    seen: set[tuple[int, ...]] = set()
    identifiers = []
    for title in titles:
        number, plain = 1, " ".join(title.split())
        text = plain
        while True:
            tokens = encode(text)
            if not tokens or end in tokens:
                raise TreeError(
                    f"title {title!r}: tokens {tokens} found; one or more are needed, and not {end}, the end"
                )
            if longest is not None and len(tokens) + 1 > longest:
                raise TreeError(f"title {title!r}: {len(tokens) + 1} tokens found with its end, {longest} allowed")
            if tuple(tokens) not in seen:
                break
            number += 1
            text = f"{plain} ({number})"
        seen.add(tuple(tokens))
        identifiers.append([*tokens, end])
    return Identifiers(identifiers)


def place(
    tree: Tree,
    vectors_AD: NDArray[np.float32],
    new_ND: NDArray[np.float32],
    branching: Sequence[int],
    first_token: int,
) -> list[list[int]]:
    """Identifiers of new ads in a tree of clusters that a model was trained on already: beside the ad most like them.

    It shares the beginning of its neighbour's identifier, as much of it as leaves a free token on the level below.

    Args:
        vectors_AD: what the ads of the tree are like, in the order of `tree.ad`; made together with `new_ND`.

    Raises:
        TreeError: the tree is full.
    """
    starts = first_token + np.concatenate([[0], np.cumsum(branching)[:-1]])
    allowed = [set(range(start, start + width)) for start, width in zip(starts.tolist(), branching, strict=True)]
    like_AD = np.concatenate([vectors_AD, new_ND])
    placed: list[list[int]] = []
    for number, vector_D in enumerate(new_ND):
        # Those placed before are neighbours too: what is left may lie below a branch that one of them opened.
        near_A = np.argsort(-(like_AD[: len(vectors_AD) + number] @ vector_D), kind="stable")
        heads = ((kept, near_A) for kept in range(len(branching) - 1, -1, -1))
        found = next((free for kept, near in heads if (free := _free(tree, near, kept, placed, allowed))), None)
        if found is None:
            room = int(np.prod(branching))
            raise TreeError(f"the tree is full: {tree.ads + len(placed)} ads, room for {room}; build it anew")
        placed.append(found)
    return placed


def _free(
    tree: Tree, near_A: NDArray[np.int64], kept: int, placed: list[list[int]], allowed: list[set[int]]
) -> list[int] | None:
    """An identifier that nobody has, with the first `kept` tokens of the nearest ad below which there is room.

    Args:
        near_A: ads of the tree by their place in it, then those of `placed`; nearest first.
    """
    tried: set[tuple[int, ...]] = set()
    for near in near_A.tolist():
        identifier = tree.path(int(tree.leaf[near])) if near < tree.ads else placed[near - tree.ads]
        head = identifier[:kept]
        if tuple(head) in tried:
            continue
        tried.add(tuple(head))
        taken = {identifier[kept] for identifier in placed if identifier[:kept] == head}
        node = tree.node_of(head)
        if node is not None:  # else it is the beginning of placed ones alone
            taken |= set(tree.children(np.array([node])).token_E.tolist())
        free = allowed[kept] - taken
        if free:
            return [*head, min(free), *(min(level) for level in allowed[kept + 1 :])]
    return None
