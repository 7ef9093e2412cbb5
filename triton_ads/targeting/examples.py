"""Training examples of a generator: token sequences, and from where on each is learned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.prompt import PromptFormat
from triton_ads.features.words import words


@dataclass(frozen=True)
class Example:
    """Tokens; those before `learn_from` are read and not learned."""

    tokens: NDArray[np.int64]
    learn_from: int


@dataclass(frozen=True)
class ExampleMaker:
    """Makes the examples of one epoch.

    Of every journey: windows of the prompt's length, in which each event is learned from those before it. And for a
    share of the events: a query of a few of the ad's own words, with a part of the journey or none, and that ad as the
    answer. So the model learns to answer with a journey, with a query, and with both.
    """

    form: PromptFormat
    identifiers: Sequence[Sequence[int]]  # of each ad
    texts: Sequence[str]  # of each ad
    query_share: float = 0.5  # examples with a query, for each event

    def epoch(self, journeys: Sequence[Sequence[int]], random: np.random.Generator) -> list[Example]:
        """All examples, shuffled; other windows and other queries in every epoch."""
        examples = [example for journey in journeys for example in self._windows(journey, random)]
        examples += [example for journey in journeys for example in self._queries(journey, random)]
        return [examples[i] for i in random.permutation(len(examples))]

    def _windows(self, journey: Sequence[int], random: np.random.Generator) -> Iterator[Example]:
        """Windows of one event more than a prompt holds, which is the answer; the first begins anywhere."""
        size = self.form.events + 1
        start = -int(random.integers(size))
        head = len(self.form.prompt([]))
        while start < len(journey):
            window = [self.identifiers[ad] for ad in journey[max(0, start) : start + size]]
            if window:
                tokens = [*self.form.prompt([]).tolist(), *(token for identifier in window for token in identifier)]
                yield Example(np.array(tokens, np.int64), head)
            start += size

    def _queries(self, journey: Sequence[int], random: np.random.Generator) -> Iterator[Example]:
        for place in np.flatnonzero(random.random(len(journey)) < self.query_share).tolist():
            ad = journey[place]
            own = sorted(set(words(self.texts[ad])))
            if not own:
                continue
            count = int(random.integers(1, min(self.form.query_words, len(own)) + 1))
            query = " ".join(random.permutation(own)[:count].tolist())
            known = journey[max(0, place - int(random.integers(self.form.events + 1))) : place]
            prompt = self.form.prompt([self.identifiers[before] for before in known], query)
            tokens = np.concatenate([prompt, np.array(self.identifiers[ad], np.int64)])
            yield Example(tokens, len(prompt))
