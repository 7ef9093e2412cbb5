"""Our searches, as the parts of benchmark `target` time them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.target_model import VOCABULARY
from triton_ads.bench.timing import Timings, interleave
from triton_ads.compression.packed_model import PackedModel
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.packed import PackedSession, PackedTreeDecoder
from triton_ads.serving.target.search import Found, search
from triton_ads.serving.target.together import Request, run_together
from triton_ads.serving.target.trigger import ForwardCost, Trigger
from triton_ads.trie import Blocked, Tree

BEAM, LENGTH = 20, 6
Ints = NDArray[np.int64]


def random_prompt(length: int, seed: int) -> Ints:
    return np.random.default_rng([length, seed]).integers(4, VOCABULARY, length)


def tree_decoder(model: PackedModel, prompt_tokens: int) -> PackedTreeDecoder:
    return PackedTreeDecoder(Decoder(model), prompt_tokens, 4_000, cache="float32")


@dataclass(frozen=True)
class Prompted:
    """A session that has run its prompt but for the last token: what is timed behind it is the search alone."""

    session: PackedSession
    prompt: Ints

    @classmethod
    def of(cls, decoder: PackedTreeDecoder, prompt: Ints) -> "Prompted":
        session = decoder.session(prompt)
        session.memory.extend(prompt[:-1], rows="none")
        return cls(session, prompt)

    def again(self) -> PackedSession:
        self.session.memory.cut(len(self.prompt) - 1)
        return PackedSession(self.session.memory, self.prompt[-1:])


class OurSearch:
    """Searches in one tree, all of mode `beam`.

    Args:
        at: verify at this level, 0: never; by default where the trigger says.
    """

    def __init__(
        self, decoder: PackedTreeDecoder, tree: Tree, cost: ForwardCost, at: int | None = None, beam: int = BEAM
    ) -> None:
        self._decoder, self._tree, self._beam = decoder, tree, beam
        self._trigger, self._blocked = Trigger(tree, cost, most=decoder.nodes // 2, at=at), Blocked(tree)

    def together(self, prompts: Sequence[Ints]) -> list[Found]:
        """Prompts and searches, all in the same forwards."""
        sessions = [self._decoder.session(prompt) for prompt in prompts]
        found = self._run(sessions)
        for session in sessions:
            self._decoder.release(session)
        return found

    def one_by_one(self, prompts: Sequence[Ints]) -> list[Found]:
        return [found for prompt in prompts for found in self.together([prompt])]

    def after(self, prompted: Prompted) -> Found:
        """The search alone."""
        (found,) = self._run([prompted.again()])
        return found

    def identifiers(self, prompt: Ints) -> dict[tuple[int, ...], float]:
        (found,) = self.together([prompt])
        paths = (tuple(self._tree.path(int(node))) for node in found.node_B)
        return dict(zip(paths, found.score_B.tolist(), strict=True))

    def _run(self, sessions: Sequence[PackedSession]) -> list[Found]:
        requests = [
            Request(session, search(self._tree, self._blocked, self._trigger, self._beam, "beam"))
            for session in sessions
        ]
        run_together(self._decoder, requests)
        found = [request.found for request in requests if request.found is not None]
        assert len(found) == len(sessions)  # nothing stops them
        return found


def time_searches(searches: dict[str, OurSearch], behind: Sequence[Prompted], rounds: int) -> Timings:
    """Milliseconds of all prompts' searches in each round; the searches take turns at every prompt."""
    of_prompt = [
        interleave(
            {name: partial(one.after, prompted) for name, one in searches.items()}, rounds, clock=time.process_time
        )
        for prompted in behind
    ]
    return Timings({name: np.sum([one.ms[name] for one in of_prompt], axis=0) for name in searches})
