"""Whether an outcome meets the deadline, and what went wrong, by cause."""

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from triton_ads.loadtest.generator import NOT_SENT
from triton_ads.loadtest.load import Outcome, percentile

#: Causes. The first is a good answer that came after the deadline; all but `REFUSED_OTHERWISE` are timeouts.
LATE = "answered after the deadline"
GIVEN_UP = "given up by the server at the deadline"
QUEUE_TIMEOUT = "timed out in a queue of Triton"
UNSENT = "never sent: all connections were waiting"
QUEUE_FULL = "rejected: a queue of Triton was full"
TIMEOUTS = (LATE, GIVEN_UP, QUEUE_TIMEOUT, UNSENT)
_KNOWN = {
    "deadline exceeded": GIVEN_UP,
    "Request timeout expired": QUEUE_TIMEOUT,
    "exceeds maximum queue size": QUEUE_FULL,
    NOT_SENT: UNSENT,
}
_SHOWN = 90
#: The share of requests that must be answered in time, where nobody asks for another.
IN_TIME = 0.99


def cause_of(failure: str) -> str:
    """The cause of a failure as the generator tells it; numbers are left out, so that equal causes are one.

    >>> cause_of('HTTP 500: {"error":"in ensemble \\'rank\\', deadline exceeded: it passed 3.1 ms ago"}')
    'given up by the server at the deadline'
    >>> cause_of('HTTP 400: {"error":"candidates: 3000 found, at most 2000 allowed"}')
    'HTTP 400: candidates: # found, at most # allowed'
    """
    for text, cause in _KNOWN.items():
        if text in failure:
            return cause
    status, _, body = failure.partition(": ")
    with contextlib.suppress(ValueError, KeyError, TypeError):  # not Triton's JSON, or cut
        body = str(json.loads(body)["error"])
    return f"{status}: {re.sub(r'[0-9]+(?:[.][0-9]+)?', '#', body)[:_SHOWN]}"


def causes(outcome: Outcome, deadline_ms: float) -> dict[str, int]:
    """What went wrong, and for how many requests of the window; the most frequent first."""
    found: Counter[str] = Counter()
    for ms, failure in zip(outcome.ms, outcome.failures, strict=True):
        if failure:
            found[cause_of(failure)] += 1
        elif ms > deadline_ms:
            found[LATE] += 1
    return dict(found.most_common())


def judged_ms(outcome: Outcome) -> list[float]:
    """Times of all requests; of one that failed it is infinite: a fast refusal is no fast answer."""
    return [math.inf if failure else ms for ms, failure in zip(outcome.ms, outcome.failures, strict=True)]


def meets(outcome: Outcome, deadline_ms: float, share: float = IN_TIME) -> bool:
    """Whether this share of what was due was answered well within the deadline, and the server kept up."""
    return bool(outcome.ms) and percentile(judged_ms(outcome), share) <= deadline_ms and outcome.kept_up


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Several windows of one load, one after the other, as one."""
    starts = np.cumsum([0.0, *(o.seconds for o in outcomes)])
    seconds, served = float(starts[-1]), sum(o.served for o in outcomes)
    return Outcome(
        seconds=seconds,
        ms=[ms for o in outcomes for ms in o.ms],
        answered=sum(o.answered for o in outcomes),
        errors=sum(o.errors for o in outcomes),
        first_error=next((o.first_error for o in outcomes if o.first_error), ""),
        served=served,
        busy=sum(o.busy * o.seconds for o in outcomes) / seconds,
        core_ms=sum(o.core_ms * o.served for o in outcomes) / max(1, served),
        due_s=[float(start) + due for start, o in zip(starts, outcomes, strict=False) for due in o.due_s],
        failures=[failure for o in outcomes for failure in o.failures],
        candidates=[count for o in outcomes for count in o.candidates],
        numbers=[number for o in outcomes for number in o.numbers],
        served_well=sum(o.served_well for o in outcomes),
        served_candidates=sum(o.served_candidates for o in outcomes),
    )
