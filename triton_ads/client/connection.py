"""What all clients have in common: an address, a protocol, how long and how often they ask."""

import random
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from triton_ads.client.address import check_address
from triton_ads.client.errors import ServerUnavailableError
from triton_ads.client.transport import GrpcTransport, HttpTransport, Tensors, Transport

Protocol = Literal["grpc", "http"]
DEFAULT_URLS: dict[Protocol, str] = {"grpc": "127.0.0.1:8001", "http": "127.0.0.1:8000"}

#: The server's own "deadline exceeded" says where the time went: how long it is waited for after the deadline.
_GRACE_S = 0.02
_BACKOFF_S = 0.05
_LEAST_S = 0.001
#: A day: whoever waits longer does not rank, and the sockets' timers do not take every number.
LONGEST_S = 86_400


class Connection:
    """A client of one model of one server, safe to share between threads.

    Args:
        url: host:port of the server; by default where `triton-ads serve` listens.
        protocol: "grpc", or "http" for where gRPC cannot pass.
        model: the model to ask; by default the one of a recipe without prefix.
        timeout_s: longest wait for an answer, at most a day.
        pool: gRPC channels that calls are spread over. HTTP takes as many connections as there are calls at once.
        retries: how often to ask again when nobody answers; each wait is twice the last, starting at 50 ms, and up to
            half longer, so that clients do not come back all at once. Only a request that found no server is asked
            again, never one that was refused, came too late, or found the server busy. A ranking changes nothing on the
            server, so asking twice is safe.
        labels: names of the score columns, passed on to each Ranking.

    Raises:
        ValueError: unknown protocol, a `url` that is not host:port, or a number out of range.
    """

    #: What a client asks where its `model` is not given.
    default_model: ClassVar[str]

    def __init__(
        self,
        url: str | None = None,
        protocol: Protocol = "grpc",
        *,
        model: str | None = None,
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
        self.model = self.default_model if model is None else model
        self.labels = tuple(labels)
        self.timeout_s = timeout_s
        self.retries = retries
        self.transport: Transport = GrpcTransport(self.url, pool) if protocol == "grpc" else HttpTransport(self.url)

    def allowed_s(self, deadline_ms: float | None) -> float:
        """How long an answer is waited for.

        Raises:
            ValueError: a deadline that is not above 0 and at most a day.
        """
        if deadline_ms is not None and not 0 < deadline_ms <= 1000 * LONGEST_S:
            raise ValueError(f"deadline_ms: {deadline_ms} found, above 0 and at most {1000 * LONGEST_S} allowed")
        return self.timeout_s if deadline_ms is None else min(self.timeout_s, deadline_ms / 1000 + _GRACE_S)

    def ask(self, inputs: Tensors, end: float) -> dict[str, NDArray[Any]]:
        """All outputs of the model, asked for until `end` of time.monotonic().

        Raises:
            RankError: the server refused; the message says which input, what was found and what is allowed.
            ServerUnavailableError: nobody answers.
            RankTimeoutError: no answer in time.
        """
        for attempt in range(self.retries):
            try:
                return self.transport.infer(self.model, inputs, _until(end))
            except ServerUnavailableError:
                pause_s = _BACKOFF_S * 2**attempt * random.uniform(1, 1.5)
                if time.monotonic() + pause_s >= end:
                    raise
                time.sleep(pause_s)
        return self.transport.infer(self.model, inputs, _until(end))

    def close(self) -> None:
        """Close the connections; calls under way in other threads may fail."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _until(end: float) -> float:
    """Seconds from now; a little where the time is over, which the transports tell as any other that was too short."""
    return max(_LEAST_S, end - time.monotonic())


def text(array: NDArray[Any]) -> str:
    """The one string of a BYTES tensor."""
    value = array.reshape(-1)[0]
    return value.decode() if isinstance(value, bytes) else str(value)


def bytes_of(value: str) -> NDArray[np.object_]:
    """A BYTES tensor of one string, with Triton's batch of 1."""
    return np.array([[value.encode()]], np.object_)
