"""A request's prompt: who asks, what was asked for, and which ads must not be answered."""

# Legend: A ads of the tree, L tokens of the longest identifier, E events, P tokens of a prompt, N ads.

from dataclasses import dataclass

import numpy as np

from triton_ads.features.ids import MISSING
from triton_ads.features.prompt import Prompts
from triton_ads.serving import counters as count
from triton_ads.serving.checks import Tensors
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.journeys import JourneyStore
from triton_ads.serving.target.step import Ints
from triton_ads.trie import Tree

LONGEST_QUERY = 1000  # characters


@dataclass(frozen=True)
class Prompt:
    """What is asked of the model, and which ads it must not answer with."""

    tokens_P: Ints
    withheld_N: Ints


class PromptEncoder:
    """Turns the tensors of a request into a prompt, by the code that made the examples of training."""

    def __init__(self, tree: Tree, form: Prompts, users: JourneyStore, counters: Counters) -> None:
        self._tree, self._form, self._users, self._counters = tree, form, users, counters
        self._token_AL = _identifiers(tree)

    def encode(self, tensors: Tensors) -> Prompt:
        """
        Raises:
            RequestError: the query is too long.
        """
        user_id, sent = int(tensors["user_id"][0, 0]), tensors["journey"][0]
        query = self._query(tensors["query"][0, 0])
        position = None if user_id == MISSING else self._users.find(user_id)
        known = self._users.journey(position) if position is not None else np.zeros(0, np.int64)
        journey = self._journey(sent[::-1] if len(sent) else known)
        tokens_P = self._form.prompt(journey, query)
        if not journey and not self._form.asks(query):
            self._counters.add(count.COLD_STARTS)
        met = self._users.met(position) if position is not None else np.zeros(0, np.int64)
        return Prompt(tokens_P, np.unique(np.concatenate([met, sent, tensors["exclude"][0]])))

    def _query(self, sent: bytes | str) -> str:
        query = sent.decode(errors="replace") if isinstance(sent, bytes) else sent
        if len(query) > LONGEST_QUERY:
            raise RequestError(
                Cause.WRONG_LENGTH, f"query: length {len(query)} found, at most {LONGEST_QUERY} characters allowed"
            )
        self._counters.add(count.OOV, "query", amount=self._form.unknown(query))
        return query

    def _journey(self, ads: Ints) -> list[list[int]]:
        """Identifiers of the most recent ads that the tree has, oldest first."""
        leaf, known = self._tree.leaves_of(ads)
        self._counters.add(count.OOV, "journey", amount=int((~known).sum()))
        self._counters.add(count.TRUNCATED, amount=max(0, int(known.sum()) - self._form.events))
        recent = self._tree.leaf.searchsorted(leaf[known][-self._form.events :])
        return [row[row >= 0].tolist() for row in self._token_AL[recent]]


def _identifiers(tree: Tree) -> Ints:
    """Identifiers of all ads, [A, L] in the order of `tree.leaf`, -1 before shorter ones."""
    token_AL = np.full((tree.ads, tree.length), -1, np.int64)
    node_A = tree.leaf.astype(np.int64)
    for level in range(tree.length - 1, -1, -1):
        inside = node_A > 0
        token_AL[inside, level] = tree.token[node_A[inside] - 1]
        node_A[inside] = tree.parent(node_A[inside])
    return token_AL
