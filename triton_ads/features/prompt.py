"""Prompts of the generator: what a user did and what was asked for, as tokens. The same offline and online.

BOS [QUERY word ...] JOURNEY identifier identifier ...        oldest event first; the answer follows

0 PAD   1 BOS   2 QUERY   3 JOURNEY   4 an unknown word   5 ... the words, sorted   ... the identifiers' tokens
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.words import words

PAD, BOS, QUERY, JOURNEY, UNKNOWN = range(5)
FIRST_WORD = 5


class Prompts(Protocol):
    """How a generator is asked: tokens made for it (PromptFormat) or text (text_prompt.py)."""

    @property
    def events(self) -> int:
        """Of a journey, the most recent that are read."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """Tokens that a model must have for prompts; identifiers may need more."""
        ...

    def prompt(self, journey: Sequence[Sequence[int]], query: str = "") -> NDArray[np.int64]:
        """A prompt, int64 [P], of the identifiers of ads, oldest first, and a query."""
        ...

    def asks(self, query: str) -> bool:
        """Whether a query says anything."""
        ...

    def unknown(self, query: str) -> int:
        """Words of a query, as far as it is read, that are not known."""
        ...

    def longest(self, identifier_length: int) -> int:
        """Tokens of the longest prompt, with the answer."""
        ...


@dataclass(frozen=True)
class PromptVocabulary:
    """The words that queries may use, and where the identifiers' tokens begin."""

    words: tuple[str, ...]  # sorted

    @property
    def first_identifier(self) -> int:
        return FIRST_WORD + len(self.words)

    @cached_property
    def _token_of(self) -> dict[str, int]:
        return {word: FIRST_WORD + i for i, word in enumerate(self.words)}

    def query(self, text: str, most: int) -> list[int]:
        """Tokens of the first `most` words of a query; UNKNOWN for a word that no ad has.

        >>> PromptVocabulary(("comedy", "space")).query("A Space comedy!", 3)
        [4, 6, 5]
        """
        return [self._token_of.get(word, UNKNOWN) for word in words(text)[:most]]


def vocabulary_of(texts: Iterable[str]) -> PromptVocabulary:
    """All words of texts."""
    return PromptVocabulary(tuple(sorted({word for text in texts for word in words(text)})))


@dataclass(frozen=True)
class PromptFormat:
    """How long a prompt may get."""

    vocabulary: PromptVocabulary
    events: int  # of the journey, the most recent ones
    query_words: int

    def prompt(self, journey: Sequence[Sequence[int]], query: str = "") -> NDArray[np.int64]:
        """A prompt, int64 [P].

        Args:
            journey: the identifiers of the ads that the user met, oldest first; may be empty.
            query: what was asked for; empty where nothing was.
        """
        asked = self._asked(query)
        head = [BOS, QUERY, *asked, JOURNEY] if asked else [BOS, JOURNEY]
        recent = journey[max(0, len(journey) - self.events) :]
        return np.array([*head, *(token for identifier in recent for token in identifier)], np.int64)

    @property
    def vocabulary_size(self) -> int:
        return self.vocabulary.first_identifier

    def asks(self, query: str) -> bool:
        """Whether a query has a word."""
        return bool(self._asked(query))

    def unknown(self, query: str) -> int:
        """Words that no ad has."""
        return self._asked(query).count(UNKNOWN)

    def _asked(self, query: str) -> list[int]:
        return self.vocabulary.query(query, self.query_words)

    def longest(self, identifier_length: int) -> int:
        """Tokens of the longest prompt, with the answer."""
        return 3 + self.query_words + (self.events + 1) * identifier_length
