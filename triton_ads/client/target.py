"""TargetClient: ask a server which ads to consider, and have them ranked at once."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triton_ads.client.connection import Connection, bytes_of, text
from triton_ads.client.ranking import Ranking, parse_ranking
from triton_ads.client.request import NO_DEADLINE, NO_USER, deadline_after, ids_tensor, rank_inputs

# B ads of an answer

#: The server's own number of ads.
DEFAULT_TOP = 0


@dataclass(frozen=True)
class Targets:
    """Ads to consider, likeliest first.

    >>> list(Targets(np.array([7, 5]), np.array([-1.5, -2.25], np.float32), "0123456789ab"))
    [(7, -1.5), (5, -2.25)]
    """

    ids: NDArray[np.int64]  # [B]
    scores: NDArray[np.float32]  # [B], log-probability of each ad's identifier
    release: str  # the release that answered

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(self.ids.tolist(), self.scores.tolist(), strict=True)


@dataclass(frozen=True)
class RankedTargets:
    """Ads that were generated, and their ranking."""

    ranking: Ranking
    target_ids: NDArray[np.int64]  # [B], likeliest first
    target_scores: NDArray[np.float32]  # [B]


class TargetClient(Connection):
    """A client of one server whose recipe generates ads; safe to share between threads.

        with TargetClient("127.0.0.1:8001") as client:
            for ad, score in client.target(user_id=42, top=20):
                print(ad, score)

    Args:
        model: the ensemble to ask: `target`, or `ads` to have them ranked; with the recipe's prefix where it has one.
        And the others of Connection.
    """

    default_model = "target"

    def target(
        self,
        *,
        user_id: int = NO_USER,
        journey: ArrayLike | None = None,
        query: str = "",
        exclude: ArrayLike | None = None,
        top: int = DEFAULT_TOP,
        deadline_ms: float | None = None,
    ) -> Targets:
        """The ads that could follow a user's journey, or answer a query, or both.

        Args:
            user_id: the user to look up; -1: nobody.
            journey: int64 [E], ads that the user met, most recent first; used when given, else the store's.
            query: what is asked for, in words.
            exclude: int64, ads that must not be answered, beside those that the user has met.
            top: how many; 0: the server's default.
            deadline_ms: how long the answer is worth anything; None: the server's default, and `timeout_s` here.

        Raises:
            As RankClient.rank.
        """
        end = time.monotonic() + self.allowed_s(deadline_ms)
        inputs = target_inputs(user_id, journey, query, exclude, top, deadline_after(deadline_ms))
        outputs = self.ask(inputs, end)
        return Targets(outputs["target_ids"][0], outputs["target_scores"][0], text(outputs["target_release"]))

    def ads(
        self,
        *,
        user_id: int = NO_USER,
        journey: ArrayLike | None = None,
        query: str = "",
        exclude: ArrayLike | None = None,
        top: int = DEFAULT_TOP,
        deadline_ms: float | None = None,
        **ranked: Any,
    ) -> RankedTargets:
        """The same ads, ranked in the same call; of a client whose model is `ads`.

        Args:
            ranked: arguments of RankClient.rank that describe user and context, and `tier`.

        Raises:
            As RankClient.rank.
        """
        end = time.monotonic() + self.allowed_s(deadline_ms)
        deadline_us = deadline_after(deadline_ms)
        inputs = rank_inputs([], user_id=user_id, deadline_us=deadline_us, **ranked)
        del inputs["candidates"]
        inputs |= target_inputs(user_id, journey, query, exclude, top, deadline_us)
        outputs = self.ask(inputs, end)
        return RankedTargets(parse_ranking(outputs, self.labels), outputs["target_ids"][0], outputs["target_scores"][0])


def target_inputs(
    user_id: int = NO_USER,
    journey: ArrayLike | None = None,
    query: str = "",
    exclude: ArrayLike | None = None,
    top: int = DEFAULT_TOP,
    deadline_us: int = NO_DEADLINE,
) -> Mapping[str, NDArray[Any]]:
    """The inputs of the model `target` (docs/wire.md); see TargetClient.target for the arguments.

    >>> target_inputs(42, [30, 10])["journey"].tolist()
    [[30, 10]]
    """
    return {
        "user_id": ids_tensor("user_id", user_id),
        "journey": ids_tensor("journey", journey),
        "query": bytes_of(query),
        "exclude": ids_tensor("exclude", exclude),
        "top": np.array([[top]], np.int32),
        "deadline_us": np.array([[deadline_us]], np.int64),
    }
