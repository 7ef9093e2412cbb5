"""Why one request gets an error: the cause, which is counted, and a message, which the client reads."""

from enum import StrEnum


class Cause(StrEnum):
    """The `cause` label of the metric `triton_ads_refused_total`."""

    TOO_MANY_CANDIDATES = "too_many_candidates"
    WRONG_LENGTH = "wrong_length"
    NOT_FINITE = "not_finite"
    OUT_OF_RANGE = "out_of_range"
    UNKNOWN_TIER = "unknown_tier"
    DEADLINE = "deadline_exceeded"
    OTHER_RELEASE = "other_release"
    INTERNAL = "internal"


#: A value of a request is shown up to here: clients choose its length, and the message is logged and sent back.
SHOWN = 60


def shown(value: object) -> str:
    """`value` for an error message, cut where it is long.

    >>> shown("gold"), shown("x" * 100_000)[-6:], len(shown("x" * 100_000))
    ("'gold'", 'xxx...', 63)
    """
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


class RequestError(Exception):
    """A request that is answered with an error. It never concerns the other requests of its batch."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause
