"""Prompts in a published model's own language: a line of text, then titles, one a line. The same offline and online.

A list of films about space:     the line; its tokens end where the first title begins
Alien                            titles of the journey, oldest first: identifiers, each with its end of line
Star Wars                        the answer follows
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from triton_ads.recipe.target import PromptText

_HERE = "{query}"


class TextPromptError(ValueError):
    """A tokenizer that cannot be used; the message says why."""


def read_tokenizer(text: str) -> Tokenizer:
    """From the text of a `tokenizer.json`.

    Raises:
        TextPromptError: it is none.
    """
    try:
        return Tokenizer.from_str(text)
    # The package raises plain exceptions.
    except Exception as error:
        raise TextPromptError(f"the tokenizer cannot be read: {error}") from error


@dataclass(frozen=True)
class TextPromptFormat:
    """How prompts are written, and how long one may get. `encode` adds nothing to a text."""

    encode: Callable[[str], list[int]]
    begin: tuple[int, ...]  # what the tokenizer puts before a text
    vocabulary_size: int
    text: PromptText
    events: int  # of the journey, the most recent ones
    query_tokens: int

    @classmethod
    def of(cls, tokenizer: str, text: PromptText, events: int, query_tokens: int) -> "TextPromptFormat":
        """Args: tokenizer: the text of a `tokenizer.json`.

        Raises:
            TextPromptError: it is none.
        """
        made = read_tokenizer(tokenizer)
        return cls(
            encode=lambda text: list(made.encode(text, add_special_tokens=False).ids),
            begin=tuple(made.encode("", add_special_tokens=True).ids),
            vocabulary_size=made.get_vocab_size(),
            text=text,
            events=events,
            query_tokens=query_tokens,
        )

    def prompt(self, journey: Sequence[Sequence[int]], query: str = "") -> NDArray[np.int64]:
        """A prompt, int64 [P].

        Args:
            journey: the identifiers of the ads that the user met, oldest first; may be empty.
            query: what was asked for; empty where nothing was.
        """
        asked = self._asked(query)
        before, after = self._around
        head = [*before, *asked, *after] if asked else self._line
        recent = journey[max(0, len(journey) - self.events) :]
        return np.array([*self.begin, *head, *(token for title in recent for token in title)], np.int64)

    def asks(self, query: str) -> bool:
        """Whether a query says anything."""
        return bool(self._asked(query))

    def unknown(self, query: str) -> int:
        """Words that the model has no token for: none, it reads letters."""
        return 0

    def longest(self, identifier_length: int) -> int:
        """Tokens of the longest prompt, with the answer."""
        before, after = self._around
        head = max(len(self._line), len(before) + self.query_tokens + len(after))
        return len(self.begin) + head + (self.events + 1) * identifier_length

    def _asked(self, query: str) -> list[int]:
        """The first tokens of a query; its words are one space apart, and a space stands before them where the text
        has one: a word within a line is another token than a word that begins one."""
        plain = " ".join(query.split())
        space = " " if self.text.query.partition(_HERE)[0].endswith(" ") else ""
        return self.encode(space + plain)[: self.query_tokens] if plain else []

    @cached_property
    def _line(self) -> list[int]:
        """The line where nothing is asked for."""
        return self.encode(self.text.journey)

    @cached_property
    def _around(self) -> tuple[list[int], list[int]]:
        before, _, after = self.text.query.partition(_HERE)
        return self.encode(before.removesuffix(" ")), self.encode(after)
