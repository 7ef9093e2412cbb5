"""RankClient: ask a server to rank candidates."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self

from numpy.typing import ArrayLike

from triton_ads.client.address import check_address
from triton_ads.client.errors import ServerUnavailableError
from triton_ads.client.ranking import Ranking, parse_ranking
from triton_ads.client.request import NO_USER, deadline_after, rank_inputs
from triton_ads.client.transport import GrpcTransport, HttpTransport, Transport

Protocol = Literal["grpc", "http"]
DEFAULT_URLS: dict[Protocol, str] = {"grpc": "127.0.0.1:8001", "http": "127.0.0.1:8000"}

#: The server's own "deadline exceeded" says where the time went: how long it is waited for after the deadline.
_GRACE_S = 0.02
_BACKOFF_S = 0.05
#: A day: whoever waits longer does not rank, and the sockets' timers do not take every number.
LONGEST_S = 86_400


class RankClient:
    """A client of one server, safe to share between threads.

        with RankClient("127.0.0.1:8001") as client:
            ranking = client.rank([1, 2, 3], user_id=42)
            for ad, scores in ranking:
                print(ad, scores)

    Args:
        url: host:port of the server; by default where `triton-ads serve` listens.
        protocol: "grpc", or "http" for where gRPC cannot pass.
        model: the ensemble to ask: `rank`, or `PREFIX_rank` of a recipe with a prefix.
        timeout_s: longest wait for an answer, at most a day.
        pool: gRPC channels that calls are spread over. HTTP takes as many connections as there are calls at once.
        retries: how often to ask again when nobody answers; each wait is twice the last, starting at 50 ms. Only a
            request that found no server is asked again, never one that was refused or came too late.
        labels: names of the score columns, passed on to each Ranking.

    Raises:
        ValueError: unknown protocol, a `url` that is not host:port, or a number out of range.
    """

    def __init__(
        self,
        url: str | None = None,
        protocol: Protocol = "grpc",
        *,
        model: str = "rank",
        timeout_s: float = 5.0,
        pool: int = 1,
        retries: int = 0,
        labels: Sequence[str] = (),
    ) -> None:
        if protocol not in DEFAULT_URLS:
            raise ValueError(f"protocol: {protocol!r} is not known; allowed: {', '.join(DEFAULT_URLS)}")
        # Comparisons with NaN are false: what is allowed is asked for, not what is not.
        if not 0 < timeout_s <= LONGEST_S or pool < 1 or retries < 0:
            raise ValueError(
                f"0 < timeout_s <= {LONGEST_S}, pool >= 1, retries >= 0: found {timeout_s}, {pool}, {retries}"
            )
        self.url = DEFAULT_URLS[protocol] if url is None else check_address(url)
        self.model = model
        self.timeout_s = timeout_s
        self.retries = retries
        self.labels = tuple(labels)
        self.transport: Transport = GrpcTransport(self.url, pool) if protocol == "grpc" else HttpTransport(self.url)

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
        if deadline_ms is not None and not 0 < deadline_ms <= 1000 * LONGEST_S:
            raise ValueError(f"deadline_ms: {deadline_ms} found, above 0 and at most {1000 * LONGEST_S} allowed")
        allowed_s = self.timeout_s if deadline_ms is None else min(self.timeout_s, deadline_ms / 1000 + _GRACE_S)
        end = time.monotonic() + allowed_s
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
        for attempt in range(self.retries + 1):
            try:
                outputs = self.transport.infer(self.model, inputs, end - time.monotonic())
            except ServerUnavailableError:
                pause_s = _BACKOFF_S * 2**attempt
                if attempt == self.retries or time.monotonic() + pause_s >= end:
                    raise
                time.sleep(pause_s)
            else:
                break
        return parse_ranking(outputs, self.labels)

    def close(self) -> None:
        """Close the connections; calls under way in other threads may fail."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
