"""What a search asks of a decoder, and the decoder's side of it."""

# Legend: T nodes to run, E questions.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: As a parent: the end of the prompt. As a row: the prompt's last token.
PROMPT = -1


@dataclass(frozen=True)
class Step:
    """One forward of one request.

    Nodes have slots 0, 1, ... in the order in which they are run, over all steps of a session; those of this step have
    the slots that follow, so that a step may hold whole subtrees, parents before children.
    """

    token_T: Ints
    parent_T: Ints  # slot of each node's parent, or PROMPT
    row_E: Ints  # which node of this step is asked, or PROMPT (in a first step, which runs no node)
    asked_E: Ints  # the token whose log-probability after that node is wanted

    @property
    def tokens(self) -> int:
        return len(self.token_T)


class Session(Protocol):
    """A prompt in the decoder's memory, and the nodes that were run."""


class TreeDecoder(Protocol):
    """A language model that continues prompts along trees of tokens."""

    def session(self, prompt: Ints) -> Session:
        """A session that will run `prompt` in its first step."""

    def forward(self, steps: Sequence[tuple[Any, Step]]) -> list[Floats]:
        """Run steps of different sessions: log-probabilities [E] of each, over the whole vocabulary."""
