"""Several searches, one forward for all of them: whoever is still searching takes part in the next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.target.search import Found, Search
from triton_ads.serving.target.step import Floats, Session, Step, TreeDecoder


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

    A request is searched exactly as it would be alone. One for which the decoder computes what is no number is stopped:
    NaN sorts anywhere, so that the search would end with wrong ads or none.

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
                _check_numbers(logp)
                request.step = request.search.send(logp)
            except RequestError as error:
                active.pop(number).stopped = error
            except StopIteration as end:
                request.found = end.value
                del active[number]


def _check_numbers(logp: Floats) -> None:
    finite = np.isfinite(logp)
    if not finite.all():
        raise RequestError(
            Cause.INTERNAL,
            f"log-probabilities: {logp[int(finite.argmin())]} found, finite values needed: "
            "the generator's weights are damaged, or too large for its arithmetic",
        )
