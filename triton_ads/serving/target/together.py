"""Several searches, one forward for all of them: whoever is still searching takes part in the next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from triton_ads.serving.target.search import Found, Search
from triton_ads.serving.target.step import Session, Step, TreeDecoder


@dataclass
class Request:
    """A prompt that was run, and the search that it is for."""

    session: Session
    search: Search
    step: Step = field(init=False)
    found: Found | None = None
    stopped: Exception | None = None

    def __post_init__(self) -> None:
        self.step = next(self.search)


def run_together(
    decoder: TreeDecoder, requests: Sequence[Request], check: Callable[[int], None] = lambda number: None
) -> None:
    """Run all searches to their end; each then has its `found`, or the reason for which it was `stopped`.

    A request is searched exactly as it would be alone.

    Args:
        check: asked before each forward with the number of each request that is still searching; raises to stop it
            (a deadline, a client that has gone).
    """
    active = dict(enumerate(requests))
    while active:
        for number in list(active):
            try:
                check(number)
            except Exception as error:
                active.pop(number).stopped = error
        if not active:
            return
        answers = decoder.forward([(request.session, request.step) for request in active.values()])
        for (number, request), logp in zip(list(active.items()), answers, strict=True):
            try:
                request.step = request.search.send(logp)
            except StopIteration as end:
                request.found = end.value
                del active[number]
