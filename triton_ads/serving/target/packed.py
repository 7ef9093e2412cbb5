"""The decoder that is served, as a search wants it: sessions over packed weights on the CPU."""

# Legend: E questions.

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from triton_ads.kernels.product import ActivationBits
from triton_ads.serving.decoder import Candidates, Decoder, Part, forward
from triton_ads.serving.decoder import Sequence as TokenTree
from triton_ads.serving.decoder.decoder import CacheType
from triton_ads.serving.target.step import PROMPT, Floats, Ints, Step


@dataclass
class PackedSession:
    """A prompt that waits for its first step, then the decoder's memory of it."""

    memory: TokenTree
    prompt: Ints | None


class PackedTreeDecoder:
    """Sessions of one decoder; their memory is used again and again.

    Args:
        prompt_tokens: of the longest prompt.
        nodes: the most that one search may run, verification included.
        threads: of a forward.
        activation_bits, cache: as for `Decoder.sequence`.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompt_tokens: int,
        nodes: int,
        *,
        threads: int = 1,
        activation_bits: ActivationBits = 16,
        cache: CacheType = "float16",
    ) -> None:
        self.prompt_tokens, self.nodes, self.threads = prompt_tokens, nodes, threads
        self._decoder, self._bits, self._cache = decoder, activation_bits, cache
        self._idle: list[TokenTree] = []

    def session(self, prompt: Ints) -> PackedSession:
        """
        Raises:
            ValueError: an empty prompt, or one that is too long.
        """
        if not 0 < len(prompt) <= self.prompt_tokens:
            raise ValueError(f"prompt: {len(prompt)} tokens found, 1 to {self.prompt_tokens} allowed")
        if not self._idle:
            fresh = self._decoder.sequence(
                self.prompt_tokens, self.nodes, self._bits, cache=self._cache, threads=self.threads
            )
            self._idle.append(fresh)
        return PackedSession(self._idle.pop(), prompt)

    def release(self, session: PackedSession) -> None:
        """Give a session's memory to another; the session must not be used any more."""
        session.memory.cut(0)
        self._idle.append(session.memory)

    def forward(self, steps: Sequence[tuple[PackedSession, Step]]) -> list[Floats]:
        """One call of the decoder for all steps: weights are read once, and each gets what it would get alone."""
        parts, rows, starts = [], [], [np.zeros(1, np.int64)]
        tokens = asked = 0
        for session, step in steps:
            part, row_R, start_R = _part(session, step)
            parts.append(part)
            rows.append(tokens + row_R)
            starts.append(asked + start_R)
            tokens += np.size(part.tokens)
            asked += len(step.asked_E)
        candidates = Candidates(np.concatenate(starts), np.concatenate([step.asked_E for _, step in steps]))
        logp = forward(parts, np.concatenate(rows), candidates, log_probabilities=True).astype(np.float64)
        for session, _ in steps:
            session.prompt = None
        return np.split(logp, np.cumsum([len(step.asked_E) for _, step in steps])[:-1])


def _part(session: PackedSession, step: Step) -> tuple[Part, Ints, Ints]:
    """What a step brings in, which of its tokens are asked, and where the questions of each end."""
    if session.prompt is None:
        row_R, start_R = _by_row(step.row_E)
        return Part(session.memory, step.token_T, step.parent_T), row_R, start_R[1:]
    assert (step.row_E == PROMPT).all()  # a first step asks the prompt
    last = np.array([len(session.prompt) - 1])
    return Part(session.memory, session.prompt), last, np.array([len(step.asked_E)])


def _by_row(row_E: Ints) -> tuple[Ints, Ints]:
    """The rows that are asked, ascending, and where the questions of each begin; questions come row by row.

    >>> _by_row(np.array([0, 0, 3]))
    (array([0, 3]), array([0, 2, 3]))
    """
    begins = np.flatnonzero(np.diff(row_E, prepend=-1))
    return row_E[begins], np.append(begins, len(row_E)).astype(np.int64)
