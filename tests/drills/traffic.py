"""Clients that ask all the time, and what they were answered."""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np

from tests.support.tiny_release import ITEMS, USERS
from triton_ads.client import RankClient, RankError, Ranking
from triton_ads.server import TritonServer


@dataclass(frozen=True)
class Question:
    user: int
    tier: str
    size: int


#: Few enough that each is asked of every release, different enough that answers cannot be confused.
QUESTIONS = [Question(USERS[u], tier, size) for u in (3, 7, 19) for tier in ("standard", "high") for size in (1, 30)]


@dataclass
class Traffic:
    """Closed-loop clients of both protocols, between entering and leaving.

    Args:
        retries: of each client.
        pause_s: what a client waits between an answer and the next question.
    """

    server: TritonServer
    clients: int = 6
    retries: int = 0
    model: str = "rank"
    timeout_s: float = 20.0
    pause_s: float = 0.0
    answers: list[tuple[float, float, Question, Ranking]] = field(default_factory=list)  # when, seconds, ...
    errors: list[RankError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(self.clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def wait(self, more: int, limit_s: float = 60.0) -> None:
        """Until so many more answers have come."""
        wanted, end = len(self.answers) + more, time.monotonic() + limit_s
        while len(self.answers) < wanted:
            assert time.monotonic() < end, f"{len(self.answers)} answers and {len(self.errors)} errors in {limit_s} s"
            time.sleep(0.01)

    def releases(self) -> dict[str, int]:
        """Answers of each release."""
        found: dict[str, int] = defaultdict(int)
        for _, _, _, ranking in self.answers:
            found[ranking.release] += 1
        return dict(found)

    def p99_ms(self, start: float = 0.0, end: float = float("inf")) -> float:
        """Of the answers to what was asked between two times of time.monotonic()."""
        return float(np.percentile([s for at, s, _, _ in self.answers if start <= at < end], 99) * 1000)

    def _ask(self, number: int) -> None:
        protocol, url = ("grpc", self.server.grpc_url) if number % 2 else ("http", self.server.http_url)
        random = np.random.default_rng(number)
        with RankClient(url, protocol, model=self.model, retries=self.retries, timeout_s=self.timeout_s) as client:
            while not self._stopping.is_set():
                question = QUESTIONS[random.integers(len(QUESTIONS))]
                began = time.monotonic()
                try:
                    ranking = ask(client, question)
                except RankError as error:
                    self.errors.append(error)
                    time.sleep(0.01)
                else:
                    self.answers.append((began, time.monotonic() - began, question, ranking))
                    time.sleep(self.pause_s)


def ask(client: RankClient, question: Question) -> Ranking:
    return client.rank(
        ITEMS[: question.size], user_id=question.user, tier=question.tier, deadline_ms=client.timeout_s * 1000
    )


def questions_alone(server: TritonServer, model: str = "rank") -> dict[str, dict[Question, Ranking]]:
    """What the release that is served answers to every question when nothing else is asked, by its name."""
    found: dict[str, dict[Question, Ranking]] = defaultdict(dict)
    with RankClient(server.grpc_url, model=model, timeout_s=20) as client:
        for question in QUESTIONS:
            ranking = ask(client, question)
            found[ranking.release][question] = ranking
    return dict(found)


def check_no_mixture(
    answers: list[tuple[float, float, Question, Ranking]], expected: dict[str, dict[Question, Ranking]]
) -> None:
    """Every answer must be what its release answers to its question when nothing else happens.

    To 1e-6: another batch is another tile, and float32 sums in another order. Releases differ by far more.
    """
    for _, _, question, ranking in answers:
        alone = expected[ranking.release][question]
        order, alone_order = np.argsort(ranking.positions), np.argsort(alone.positions)
        np.testing.assert_allclose(ranking.scores[order], alone.scores[alone_order], rtol=0, atol=1e-6)
