"""Checks of one request's tensors; each names the tensor, what was found and what is allowed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.serving.errors import Cause, RequestError

#: The tensors of one request by name, as Triton delivers them: the first dimension is the batch and always 1.
Tensors = Mapping[str, NDArray[Any]]


def check_batch(tensors: Tensors) -> None:
    """Refuse several users in one request: only the first would be answered."""
    for name, array in tensors.items():
        if len(array) != 1:
            raise RequestError(
                Cause.WRONG_LENGTH, f"{name}: first dimension {len(array)} found, 1 allowed: a request is one user's"
            )


def check_length(name: str, array: NDArray[Any], *allowed: int) -> None:
    """Refuse an array whose length is none of `allowed`."""
    if len(array) not in allowed:
        lengths = " or ".join(str(n) for n in sorted(set(allowed)))
        raise RequestError(Cause.WRONG_LENGTH, f"{name}: length {len(array)} found, {lengths} allowed")


def check_candidates(found: int, limit: int) -> None:
    """Refuse more candidates than the recipe allows."""
    if found > limit:
        raise RequestError(
            Cause.TOO_MANY_CANDIDATES,
            f"candidates: {found} found, at most {limit} allowed (serving.max_candidates)",
        )


def check_finite(name: str, array: NDArray[np.float32]) -> None:
    """Refuse NaN and infinite values."""
    finite = np.isfinite(array)
    if not finite.all():
        at = int(finite.argmin())
        raise RequestError(Cause.NOT_FINITE, f"{name}: {array[at]} found at position {at}, finite values allowed")


def check_scores(scores_NK: NDArray[np.float32]) -> None:
    """Refuse scores that are not numbers: the sort would put them anywhere."""
    finite_N = np.isfinite(scores_NK).all(axis=1)
    if not finite_N.all():
        raise RequestError(
            Cause.NOT_FINITE,
            f"scores: not finite for the candidate at position {int(finite_N.argmin())}: a dense value of the user, "
            "the context or this candidate is too large for float32 arithmetic",
        )


def check_deadline(deadline_us: int, now_us: int) -> None:
    """Refuse a request whose answer is already worthless."""
    if now_us > deadline_us:
        raise RequestError(Cause.DEADLINE, f"deadline exceeded: it passed {(now_us - deadline_us) / 1000:.1f} ms ago")
