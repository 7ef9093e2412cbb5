"""One forward pass of a decoder: more prompt, or nodes, of one sequence or of several together.

Weights are read once for all of them. What a token gets does not depend on what is beside it: scores are those of a
call of its own, to the bit.

Legend: T tokens of all parts, R rows that are scored, V vocabulary, C candidates of all rows together.
"""

from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triton_ads.kernels import _native
from triton_ads.serving.decoder.errors import DecoderError

if TYPE_CHECKING:
    from triton_ads.serving.decoder.sequence import Sequence

#: Which tokens of a call are scored: all, the last of each part, none, or these (ascending, over all parts).
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


@dataclass(frozen=True)
class Part:
    """What a forward brings into one sequence: tokens behind its prompt, or nodes where there are `parents`."""

    sequence: "Sequence"
    tokens: ArrayLike
    parents: ArrayLike | None = None


def forward(
    parts: Ordered[Part],
    rows: Rows = "last",
    candidates: Candidates | None = None,
    log_probabilities: bool = False,
) -> NDArray[np.float32]:
    """Run the tokens of all parts, which are of different sequences of one decoder.

    Args:
        rows: tokens that are scored, numbered over all parts, one part after the other.
        candidates: score these tokens alone: then only the parts of the head that hold one are computed.
        log_probabilities: normalise over the whole vocabulary, with candidates as well.

    Returns:
        Logits, float32 [R, V], or [C] with candidates.

    Raises:
        DecoderError: no part; what `Sequence.extend` and `Sequence.grow` refuse of a part; sequences of two decoders or
            made with other options; one that is in use. Nothing has changed then, in any of them.
    """
    given = [
        (
            part.sequence.native,
            _integers("tokens", part.tokens),
            None if part.parents is None else _integers("parents", part.parents),
        )
        for part in parts
    ]
    rows_R = _rows(rows, [tokens_T.size for _, tokens_T, _ in given])
    start = token_C = None
    shape: tuple[int, ...] = (rows_R.size, parts[0].sequence.vocabulary if parts else 0)
    if candidates is not None:
        start, token_C = _integers("starts", candidates.start), _integers("candidates", candidates.token_C)
        shape = (token_C.size,)
    out = np.empty(shape, np.float32)
    try:
        _native.forward(given, rows_R, start, token_C, log_probabilities, out.reshape(-1))
    except ValueError as error:
        raise DecoderError(str(error)) from error
    return out


def _rows(rows: Rows, counts: list[int]) -> NDArray[np.int64]:
    if not isinstance(rows, str):
        return _integers("rows", rows)
    if rows not in ("all", "last", "none"):
        raise DecoderError(f"rows is {rows!r}; 'all', 'last', 'none' or numbers are allowed")
    if rows == "last":
        ends = np.cumsum(counts, dtype=np.int64)
        return ends[np.array(counts) > 0] - 1
    return np.arange(sum(counts) if rows == "all" else 0, dtype=np.int64)


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise DecoderError(f"{name} are {array.dtype} of shape {array.shape}; a list of whole numbers is allowed")
    return np.ascontiguousarray(array, np.int64)
