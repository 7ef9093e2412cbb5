"""Who asks for what: the one model of traffic of `triton-ads loadtest` and clients/locustfile.py.

`bench serving` has its lengths of requests.

users        Zipf: the r-th most active user asks in proportion to 1 / r; who has the longest history is the most
             active. A few requests come from users that nobody knows.
candidates   their number is log-normal; which ones is chance
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# N candidates of a request, U users, I items

MEDIAN, SIGMA, LONGEST = 200, 0.8, 2000  # of the number of candidates; its mean is about 270
EXPONENT = 1.0
UNKNOWN = 0.02  # of the requests


def log_normal(random: np.random.Generator, count: int, longest: int = LONGEST) -> NDArray[np.int64]:
    """Numbers of candidates: median 200, at least 1, at most `longest`."""
    return random.lognormal(np.log(MEDIAN), SIGMA, count).round().astype(np.int64).clip(1, longest)


@dataclass(frozen=True)
class Traffic:
    """
    Args:
        users: int64 [U], the most active first.
        items: int64 [I].
        longest: candidates of a request at most.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    longest: int = LONGEST

    @classmethod
    def of_release(cls, release: Path, max_candidates: int) -> "Traffic":
        """The users and items of a release's store; `max_candidates` is the recipe's limit."""
        users, items = (np.load(release / "store" / side / "ids.npy") for side in ("users", "items"))
        events = np.count_nonzero(np.load(release / "store" / "users" / "sequences.npy", mmap_mode="r"), axis=1)
        return cls(users[np.argsort(-events, kind="stable")], items, min(LONGEST, max_candidates))

    def user(self, random: np.random.Generator) -> int:
        """A user; now and then one that is not known."""
        if random.random() < UNKNOWN:
            return int(self.users.max()) + 1 + int(random.integers(1 << 20))
        cumulated_U = self._cumulated_U
        return int(self.users[np.searchsorted(cumulated_U, random.random() * cumulated_U[-1], side="right")])

    def candidates(self, random: np.random.Generator) -> NDArray[np.int64]:
        """int64 [N]; different ones, as far as there are so many."""
        (count,) = log_normal(random, 1, self.longest)
        return random.choice(self.items, int(count), replace=int(count) > len(self.items))

    @cached_property
    def _cumulated_U(self) -> NDArray[np.float64]:
        return np.cumsum(np.arange(1, len(self.users) + 1) ** -EXPONENT)
