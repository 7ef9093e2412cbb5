"""The search of a release: prompts in, scored nodes out, for any number of requests together."""

# Legend: P tokens of a prompt, N ads.

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triton_ads.features.prompt import Prompts
from triton_ads.recipe.target import Target
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.best_first import best_first
from triton_ads.serving.target.calibrate import calibrate
from triton_ads.serving.target.layers import Mode
from triton_ads.serving.target.packed import PackedSession, PackedTreeDecoder
from triton_ads.serving.target.search import Search, search
from triton_ads.serving.target.step import Floats, Ints, Step
from triton_ads.serving.target.together import Request, run_together
from triton_ads.serving.target.trigger import ForwardCost, Trigger
from triton_ads.trie import Blocked, Tree, Withheld


class SearchError(ValueError):
    """A tree, a model and limits that do not belong together; the message says what was found and what is needed."""


@dataclass(frozen=True)
class Asked:
    """One request."""

    prompt_P: Ints
    withheld_N: Ints  # ads that it must not be answered with; others than the tree's change nothing
    top: int


@dataclass
class Spent:
    """Time in forwards after the prompt's, and what the calibrated cost says of them."""

    seconds: float = 0.0
    predicted_seconds: float = 0.0


@dataclass
class _Metered:
    """The decoder, with a look at the clock."""

    decoder: PackedTreeDecoder
    cost: ForwardCost
    spent: Spent = field(default_factory=Spent)

    def session(self, prompt: Ints) -> PackedSession:
        return self.decoder.session(prompt)

    def forward(self, steps: Sequence[tuple[Any, Step]]) -> list[Floats]:
        began = time.perf_counter()
        answers = self.decoder.forward(steps)
        tokens = sum(step.tokens for _, step in steps)
        if tokens:  # not the prompts', which all run in the first
            self.spent.seconds += time.perf_counter() - began
            self.spent.predicted_seconds += self.cost(tokens) / 1000
        return answers


class AdSearch:
    """Searches of one tree with one decoder, calibrated on this machine. Not safe to use from two threads at once.

    Args:
        threads: of a forward.

    Raises:
        SearchError: the limits have no room for a search in this tree, or the model has not its tokens.
    """

    def __init__(self, tree: Tree, decoder: Decoder, form: Prompts, target: Target, threads: int = 1) -> None:
        widest = max(target.beam, target.max_top)
        stepping = check_search(tree, decoder, form, target, widest)
        self.target = target
        self._tree, self._nothing = tree, Blocked(tree)
        prompt_tokens = form.longest(tree.length) - tree.length  # without the answer
        packed = PackedTreeDecoder(decoder, prompt_tokens, target.max_nodes, threads=threads)
        self.cost = calibrate(packed, prompt_tokens, target.beam)
        self._decoder = _Metered(packed, self.cost)
        self._trigger = Trigger(
            tree, self.cost, most=max(0, target.max_nodes - stepping), steady=target.mode == "exact"
        )

    def run(
        self,
        asked: Sequence[Asked],
        check: Callable[[int], None] = lambda number: None,
        blocked: Blocked | None = None,
    ) -> tuple[list[Request], Spent]:
        """Search for all of them together; each request has what was found, or why it was stopped.

        Args:
            check: as for `run_together`.
            blocked: ads of the tree that nobody is answered with.
        """
        self._decoder.spent = Spent()
        blocked = blocked or self._nothing
        requests = [Request(self._decoder.session(one.prompt_P), self._search(one, blocked)) for one in asked]
        try:
            run_together(self._decoder, requests, check)
        finally:
            for request in requests:
                self._decoder.decoder.release(request.session)  # type: ignore[arg-type]
        return requests, self._decoder.spent

    def _search(self, one: Asked, blocked: Blocked) -> Search:
        living = Withheld(blocked, one.withheld_N)
        beam, mode = beam_of(self.target, one.top), self.target.mode
        if mode == "global":
            return best_first(self._tree, living, beam)
        return search(self._tree, living, self._trigger, beam, mode)


def beam_of(target: Target, top: int) -> int:
    """Nodes that survive a level of a search for `top` ads."""
    return max(target.beam, top)


def selection(target: Target) -> Mode:
    """How the best of what was scored are chosen: only a beam search leaves out what it would not have come to."""
    return "beam" if target.mode == "beam" else "exact"


def check_search(tree: Tree, decoder: Decoder, form: Prompts, target: Target, beam: int) -> int:
    """Refuse what cannot be searched; else the nodes that stepping to the end runs at most.

    Raises:
        SearchError: see AdSearch.
    """
    needed = max(tree.vocabulary, form.vocabulary_size)
    if decoder.config.vocabulary < needed:
        raise SearchError(f"the model has {decoder.config.vocabulary} tokens, tree and prompts need {needed}")
    if decoder.config.positions < form.longest(tree.length):
        raise SearchError(
            f"the model has {decoder.config.positions} positions, a prompt and its answer need "
            f"{form.longest(tree.length)} (target.events, target.query_words)"
        )
    starts = np.array(tree.level_start)
    internal = tree.internal_between(starts[1:-1], starts[2:])  # of every level below the root
    runs = int(internal.sum()) if target.mode == "global" else int(np.minimum(internal, beam).sum())
    if runs > target.max_nodes:
        raise SearchError(
            f"target.max_nodes: {target.max_nodes} found, a search of this tree in mode {target.mode} may run {runs} "
            f"nodes with a beam of {beam}"
        )
    return runs
