"""Requests that come at their own times, whether the server keeps up or not."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from tests.support.tiny_release import ITEMS, USERS
from triton_ads.client import RankClient, RankError

_THREADS = 128


@dataclass
class Outcome:
    """What became of the requests of a run."""

    seconds: float
    asked: int = 0
    late_s: float = 0.0  # how far the latest request was sent after its time: the generator's own lag
    answered_s: list[float] = field(default_factory=list)
    failed: list[tuple[RankError, float]] = field(default_factory=list)  # and after how long
    tiers: Counter[str] = field(default_factory=Counter)

    @property
    def goodput(self) -> float:
        """Answers a second, all of them within their deadline: the server answers no others."""
        return len(self.answered_s) / self.seconds

    def failures(self, kind: type[RankError]) -> list[float]:
        """How long each failure of a kind took."""
        return [seconds for error, seconds in self.failed if type(error) is kind]

    def other_failures(self, *kinds: type[RankError]) -> list[RankError]:
        return [error for error, _ in self.failed if type(error) not in kinds]


def offer(url: str, rate: float, seconds: float, deadline_ms: float, *, tier: str = "", seed: int = 0) -> Outcome:
    """Ask `rate` requests a second at the times of a Poisson process, over gRPC."""
    random = np.random.default_rng(seed)
    due = np.cumsum(random.exponential(1 / rate, int(rate * seconds)))
    found, lock = Outcome(float(due[-1])), threading.Lock()
    with RankClient(url, timeout_s=30, pool=4) as client, ThreadPoolExecutor(_THREADS) as pool:
        client.rank(ITEMS[:1], user_id=USERS[7])  # opens the connection
        start = time.monotonic()

        def one(at: float, user: int) -> None:
            began = time.monotonic()
            try:
                ranking = client.rank(ITEMS[:20], user_id=user, deadline_ms=deadline_ms, tier=tier)
            except RankError as error:
                with lock:
                    found.failed.append((error, time.monotonic() - began))
            else:
                with lock:
                    found.answered_s.append(time.monotonic() - began)
                    found.tiers[ranking.tier] += 1
            with lock:
                found.late_s = max(found.late_s, began - start - at)

        for at in due.tolist():
            time.sleep(max(0.0, start + at - time.monotonic()))
            pool.submit(one, at, int(random.choice(USERS)))
            found.asked += 1
    return found
