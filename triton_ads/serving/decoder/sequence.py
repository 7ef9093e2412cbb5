"""A prompt and the tree of tokens that grows from its end.

Nodes are numbered from 0 in the order in which they are added. A node sees the prompt, its ancestors and itself; its
position is the prompt's length plus its depth. So the beams of a search, and all continuations that a verification
tries, are nodes; keys and values are written once and never moved.

Legend: T tokens of a call, R rows that are scored, V vocabulary, C candidates of all rows together.
"""

from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triton_ads.kernels import _native
from triton_ads.serving.decoder.errors import DecoderError

#: Which tokens of a call are scored: all, the last, none, or these (ascending).
Rows = Literal["all", "last", "none"] | Ordered[int] | NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Candidates:
    """The tokens to score in each scored row: row r asks for `token_C[start[r] : start[r + 1]]`."""

    start: NDArray[np.int64]
    token_C: NDArray[np.int64]

    @classmethod
    def of(cls, tokens: Ordered[ArrayLike]) -> "Candidates":
        """From a list of tokens for each row.

        >>> Candidates.of([[5, 7], [], [1]]).start.tolist()
        [0, 2, 2, 3]
        """
        rows = [_integers("candidates", row) for row in tokens]
        start = np.concatenate([[0], np.cumsum([row.size for row in rows], dtype=np.int64)])
        return cls(start.astype(np.int64), np.concatenate([np.zeros(0, np.int64), *rows]))


class Sequence:
    """Made by `Decoder.sequence`. One thread at a time may use it; another is refused."""

    def __init__(self, native: _native.Sequence, vocabulary: int) -> None:
        self._native = native
        self._vocabulary = vocabulary

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return self._native.length

    @property
    def nodes(self) -> int:
        """Nodes of the tree."""
        return self._native.nodes

    @property
    def cache_bytes(self) -> int:
        """Bytes that keys and values take when prompt and tree are full."""
        return self._native.cache_bytes

    def extend(
        self,
        tokens: ArrayLike,
        rows: Rows = "last",
        candidates: Candidates | None = None,
        log_probabilities: bool = False,
    ) -> NDArray[np.float32]:
        """Append tokens to the prompt: one forward pass of them all.

        Returns logits, float32 [R, V], or with `candidates` those alone, [C]: then only the parts of the head that
        hold a candidate are computed. `log_probabilities` normalises over the whole vocabulary, in both cases.

        Raises DecoderError when the prompt is full, for tokens out of range, and while the tree has nodes.
        """
        tokens_T = _integers("tokens", tokens)
        return self._scored(self._native.extend, (tokens_T,), rows, candidates, log_probabilities)

    def grow(
        self,
        tokens: ArrayLike,
        parents: ArrayLike,
        rows: Rows = "all",
        candidates: Candidates | None = None,
        log_probabilities: bool = False,
    ) -> NDArray[np.float32]:
        """Add nodes to the tree; parents[i] is an earlier node, of this call or before, or -1 for the prompt's end.

        Returns what `extend` returns. Raises DecoderError when the tree is full, for tokens out of range and for
        parents that are no earlier node.
        """
        given = _integers("tokens", tokens), _integers("parents", parents)
        return self._scored(self._native.grow, given, rows, candidates, log_probabilities)

    def clear_nodes(self) -> None:
        """Remove all nodes; the prompt stays."""
        self._native.clear_nodes()

    def cut(self, length: int) -> None:
        """Shorten the prompt and remove all nodes: requests that begin alike share the beginning.

        Raises DecoderError for a length beyond the prompt's.
        """
        try:
            self._native.cut(length)
        except ValueError as error:
            raise DecoderError(str(error)) from error

    def _scored(
        self, call: Any, given: tuple[Any, ...], rows: Rows, candidates: Candidates | None, log_probabilities: bool
    ) -> NDArray[np.float32]:
        rows_R = _rows(rows, given[0].size)
        start = token_C = None
        shape: tuple[int, ...] = (rows_R.size, self._vocabulary)
        if candidates is not None:
            start, token_C = _integers("starts", candidates.start), _integers("candidates", candidates.token_C)
            shape = (token_C.size,)
        out = np.empty(shape, np.float32)
        try:
            call(*given, rows_R, start, token_C, log_probabilities, out.reshape(-1))
        except ValueError as error:
            raise DecoderError(str(error)) from error
        return out


def _rows(rows: Rows, count: int) -> NDArray[np.int64]:
    if not isinstance(rows, str):
        return _integers("rows", rows)
    if rows not in ("all", "last", "none"):
        raise DecoderError(f"rows is {rows!r}; 'all', 'last', 'none' or numbers are allowed")
    first = {"all": 0, "last": max(count - 1, 0), "none": count}[rows]
    return np.arange(first, count, dtype=np.int64)


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise DecoderError(f"{name} are {array.dtype} of shape {array.shape}; a list of whole numbers is allowed")
    return np.ascontiguousarray(array, np.int64)
