"""RankClient: ask a server to rank candidates."""

import time
from collections.abc import Sequence

from numpy.typing import ArrayLike

from triton_ads.client.connection import Connection
from triton_ads.client.ranking import Ranking, parse_ranking
from triton_ads.client.request import NO_USER, deadline_after, rank_inputs


class RankClient(Connection):
    """A client of one server, safe to share between threads.

        with RankClient("127.0.0.1:8001") as client:
            ranking = client.rank([1, 2, 3], user_id=42)
            for ad, scores in ranking:
                print(ad, scores)

    Args:
        model: the model to ask: `rank`, or `PREFIX_rank` of a recipe with a prefix.
        And the others of Connection.
    """

    default_model = "rank"

    def rank(
        self,
        candidates: ArrayLike,
        *,
        user_id: int = NO_USER,
        user_features: ArrayLike | None = None,
        user_dense: ArrayLike | None = None,
        sequences: Sequence[ArrayLike] | None = None,
        context_features: ArrayLike | None = None,
        context_dense: ArrayLike | None = None,
        item_features: ArrayLike | None = None,
        item_dense: ArrayLike | None = None,
        item_values: ArrayLike | None = None,
        deadline_ms: float | None = None,
        tier: str = "",
    ) -> Ranking:
        """Rank candidates for one user.

        The user is looked up in the server's store, or described by features; what is given here goes before what
        the store says. All ids are raw ids: integers as they are, strings as the signed xxh64 of their bytes. Columns
        come in the recipe's order (`triton-ads inspect recipe`).

        Args:
            candidates: int64 [N], the ads to rank.
            user_id: the user to look up; -1: none, features follow.
            user_features: int64 [Fu], ids of the user side.
            user_dense: float32 [Du], dense features of the user side.
            sequences: int64 [length, fields] for each sequence of the recipe, most recent event first.
            context_features: int64 [Fc], ids of the context side.
            context_dense: float32 [Dc], dense features of the context side.
            item_features: int64 [N, Fi], ids of the item side.
            item_dense: float32 [N, Di], dense features of the item side.
            item_values: float32 [N, V], values of the item side, such as bids: what the ranking rule reads.
            deadline_ms: how long the answer is worth anything; None: the server's default, and `timeout_s` here.
            tier: a tier to insist on; empty: the server chooses.

        Raises:
            RankError: the server refused; the message says which input, what was found and what is allowed.
            ServerUnavailableError: nobody answers.
            RankTimeoutError: no answer within `timeout_s` or the deadline.
            TypeError: ids that are not integers.
            ValueError: a deadline that is not above 0 and at most a day.
        """
        end = time.monotonic() + self.allowed_s(deadline_ms)
        inputs = rank_inputs(
            candidates,
            user_id=user_id,
            user_features=user_features,
            user_dense=user_dense,
            sequences=sequences,
            context_features=context_features,
            context_dense=context_dense,
            item_features=item_features,
            item_dense=item_dense,
            item_values=item_values,
            deadline_us=deadline_after(deadline_ms),
            tier=tier,
        )
        return parse_ranking(self.ask(inputs, end), self.labels)
