"""From identifiers to a tree.

Rows are sorted; then a row begins a new node on a level where it differs from the row before it on that level or above.
"""

# Legend: A ads, L longest identifier.

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triton_ads.trie.tree import Tree

#: What fills a row behind a shorter identifier.
END = -1
LARGEST_TOKEN = 2**32 - 2


class TreeError(ValueError):
    """Identifiers that make no tree, or a tree that cannot be used; the message says which and why."""


def build_tree(identifiers: ArrayLike | Sequence[Sequence[int]], ads: ArrayLike) -> Tree:
    """The tree of `identifiers`; the same tree whatever their order.

    Args:
        identifiers: int [A, L], END behind shorter ones; or a sequence of sequences of any lengths.
        ads: int64 [A], the ad of each.

    Raises:
        TreeError: no identifier, an empty one, tokens out of range, two ads with one identifier or the reverse, or an
            identifier that is the beginning of another: end each with a token of its own.
    """
    rows_AL, ad_A = _rows(identifiers), np.asarray(ads, np.int64)
    _check(rows_AL, ad_A)
    order = np.lexsort(rows_AL.T[::-1])
    rows_AL, ad_A = rows_AL[order], ad_A[order]
    filled_AL = rows_AL != END
    new_AL = np.ones(rows_AL.shape, np.bool_)
    np.logical_or.accumulate(rows_AL[1:] != rows_AL[:-1], axis=1, out=new_AL[1:])
    _check_distinct(rows_AL, ad_A, new_AL[:, -1])
    _check_prefix_free(rows_AL, ad_A, new_AL)
    new_AL &= filled_AL

    count, length = rows_AL.shape
    tokens, first, level_start = [], [], [0, 1]
    leaf_A = np.zeros(count, np.int64)
    node_A = np.zeros(count, np.int64)  # node of each row on the level above
    for level in range(length):
        new_A, start = new_AL[:, level], level_start[-1]
        parent = node_A[new_A]
        above = level_start[-1] - level_start[-2]
        children = np.bincount(parent - level_start[-2], minlength=above)
        first.append(start + np.concatenate([[0], np.cumsum(children)[:-1]]))
        here_A = filled_AL[:, level]
        node_A = np.where(here_A, start - 1 + np.cumsum(new_A), node_A)
        leaf_A[here_A] = node_A[here_A]
        tokens.append(rows_AL[new_A, level])
        level_start.append(start + int(new_A.sum()))
    order = np.argsort(leaf_A, kind="stable")
    token = np.concatenate(tokens)
    return Tree(
        token=token.astype(np.uint16 if token.max() < 2**16 else np.uint32),
        first=np.append(np.concatenate(first), level_start[-1]).astype(np.int32),
        level_start=tuple(level_start),
        leaf=leaf_A[order].astype(np.int32),
        ad=ad_A[order],
        catalogue=_digest(rows_AL, ad_A),
    )


def _rows(identifiers: ArrayLike | Sequence[Sequence[int]]) -> NDArray[np.int64]:
    if isinstance(identifiers, np.ndarray):
        rows_AL = identifiers.astype(np.int64)
        if rows_AL.ndim != 2:
            raise TreeError(f"identifiers: shape {list(rows_AL.shape)} found, [ads, length] needed")
        return rows_AL
    listed = [list(identifier) for identifier in identifiers]  # type: ignore[union-attr, arg-type]
    rows_AL = np.full((len(listed), max(map(len, listed), default=0)), END, np.int64)
    for row, identifier in zip(rows_AL, listed, strict=True):
        row[: len(identifier)] = identifier
    return rows_AL


def _check(rows_AL: NDArray[np.int64], ad_A: NDArray[np.int64]) -> None:
    if len(rows_AL) != len(ad_A):
        raise TreeError(f"{len(rows_AL)} identifiers for {len(ad_A)} ads; one for each is needed")
    if not len(rows_AL):
        raise TreeError("a tree needs one identifier or more, none found")
    if rows_AL.shape[1] == 0 or (rows_AL[:, 0] == END).any():
        row = 0 if rows_AL.shape[1] == 0 else int((rows_AL[:, 0] == END).argmax())
        raise TreeError(f"ad {ad_A[row]}: its identifier is empty; one token or more is needed")
    wrong = np.argwhere((rows_AL < END) | (rows_AL > LARGEST_TOKEN))
    if len(wrong):
        row, column = wrong[0]
        raise TreeError(f"ad {ad_A[row]}: token {rows_AL[row, column]} found, 0 to {LARGEST_TOKEN} allowed")
    gaps = ((rows_AL[:, 1:] != END) & (rows_AL[:, :-1] == END)).any(axis=1)
    if gaps.any():
        raise TreeError(f"ad {ad_A[int(gaps.argmax())]}: its identifier goes on after END ({END})")
    ids, counts = np.unique(ad_A, return_counts=True)
    if (counts > 1).any():
        raise TreeError(f"ad {ids[int((counts > 1).argmax())]} has two identifiers; one for each is needed")


def _check_distinct(rows_AL: NDArray[np.int64], ad_A: NDArray[np.int64], differs_A: NDArray[np.bool_]) -> None:
    if not differs_A.all():
        row = int((~differs_A).argmax())
        raise TreeError(f"ads {ad_A[row - 1]} and {ad_A[row]} have one identifier, {_shown(rows_AL[row])}")


def _check_prefix_free(rows_AL: NDArray[np.int64], ad_A: NDArray[np.int64], new_AL: NDArray[np.bool_]) -> None:
    """END sorts before every token: the identifier after a beginning is one that goes on."""
    last_A = (rows_AL != END).sum(axis=1) - 1
    begins_A = ~new_AL[np.arange(1, len(rows_AL)), last_A[:-1]]
    if begins_A.any():
        row = int(begins_A.argmax())
        raise TreeError(
            f"ad {ad_A[row]}: its identifier {_shown(rows_AL[row])} is the beginning of that of ad {ad_A[row + 1]}, "
            f"{_shown(rows_AL[row + 1])}; end every identifier with a token of its own"
        )


def _shown(row_L: NDArray[np.int64]) -> list[int]:
    return [int(token) for token in row_L if token != END]


def _digest(rows_AL: NDArray[np.int64], ad_A: NDArray[np.int64]) -> str:
    """sha256 of the sorted identifiers and their ads."""
    digest = hashlib.sha256(f"{rows_AL.shape[1]}:".encode())
    digest.update(np.ascontiguousarray(rows_AL).data)
    digest.update(np.ascontiguousarray(ad_A).data)
    return digest.hexdigest()
