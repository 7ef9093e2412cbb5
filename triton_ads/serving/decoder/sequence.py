"""A prompt and the tree of tokens that grows from its end.

Nodes are numbered from 0 in the order in which they are added. A node sees the prompt, its ancestors and itself; its
position is the prompt's length plus its depth. So the beams of a search, and all continuations that a verification
tries, are nodes; keys and values are written once and never moved.

Legend: R rows that are scored, V vocabulary, C candidates of all rows together.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triton_ads.kernels import _native
from triton_ads.serving.decoder.errors import DecoderError
from triton_ads.serving.decoder.forward import Candidates, Part, Rows, forward


class Sequence:
    """Made by `Decoder.sequence`. One thread at a time may use it; another is refused."""

    def __init__(self, native: _native.Sequence, vocabulary: int) -> None:
        self.native = native
        self.vocabulary = vocabulary

    @property
    def length(self) -> int:
        """Tokens of the prompt."""
        return self.native.length

    @property
    def nodes(self) -> int:
        """Nodes of the tree."""
        return self.native.nodes

    @property
    def cache_bytes(self) -> int:
        """Bytes that keys and values take when prompt and tree are full."""
        return self.native.cache_bytes

    def extend(
        self,
        tokens: ArrayLike,
        rows: Rows = "last",
        candidates: Candidates | None = None,
        log_probabilities: bool = False,
    ) -> NDArray[np.float32]:
        """Append tokens to the prompt: one forward pass of them all.

        Returns logits, float32 [R, V], or with `candidates` those alone, [C]; see `forward`.

        Raises DecoderError when the prompt is full, for tokens out of range, and while the tree has nodes.
        """
        return forward([Part(self, tokens)], rows, candidates, log_probabilities)

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
        return forward([Part(self, tokens, parents)], rows, candidates, log_probabilities)

    def clear_nodes(self) -> None:
        """Remove all nodes; the prompt stays."""
        self.native.clear_nodes()

    def cut(self, length: int) -> None:
        """Shorten the prompt and remove all nodes: requests that begin alike share the beginning.

        Raises DecoderError for a length beyond the prompt's.
        """
        try:
            self.native.cut(length)
        except ValueError as error:
            raise DecoderError(str(error)) from error
