"""How a request travels: gRPC or HTTP, both safe to call from any number of threads at once."""

import http.client
import itertools
import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from triton_ads.client.errors import RankError, RankTimeoutError, ServerBusyError, ServerUnavailableError
from triton_ads.client.request import DATATYPES

Tensors = Mapping[str, NDArray[Any]]

#: What Triton says of a request that is worth asking again: no version of the model is being served at the moment; the
#: process of the model has died, and the watchdog replaces it; another request of its batch had a broken string, which
#: this client never sends (docs/drills.md).
_NOT_SERVED = ("has no available versions", "is not healthy", "incomplete string")
#: How gRPC begins to say that nobody listens.
_UNCONNECTED = ("failed to connect", "connections to all backends failing")
#: What Triton says when `serving.max_queue` requests wait already.
_BUSY = "Exceeds maximum queue size"


class Transport(Protocol):
    """One way to a server."""

    def infer(self, model: str, inputs: Tensors, timeout_s: float) -> dict[str, NDArray[Any]]:
        """All outputs of one inference.

        Raises:
            RankError: refused, unavailable or too late.
        """

    def close(self) -> None: ...


class GrpcTransport:
    """gRPC over `channels` connections in turn: under load a single one becomes the bottleneck."""

    def __init__(self, url: str, channels: int) -> None:
        import tritonclient.grpc as triton

        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            # Channels with equal options would else share one connection.
            ("grpc.use_local_subchannel_pool", 1),
            # Where a name stands for several servers, as a headless service of Kubernetes, requests go to each in turn.
            ("grpc.lb_policy_name", "round_robin"),
            # A server that comes back is found soon: the default is to look again after 1 s, then up to 120 s.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        self._triton = triton
        self._url = url
        self._clients = [triton.InferenceServerClient(url, channel_args=options) for _ in range(channels)]
        self._turn = itertools.count()  # next() is one step of the interpreter: no lock needed

    def infer(self, model: str, inputs: Tensors, timeout_s: float) -> dict[str, NDArray[Any]]:
        from tritonclient.utils import InferenceServerException

        client = self._clients[next(self._turn) % len(self._clients)]
        tensors = [_input(self._triton.InferInput, name, array) for name, array in inputs.items()]
        try:
            result = client.infer(model, tensors, client_timeout=timeout_s)
        except InferenceServerException as error:
            raise self._explain(error, timeout_s) from None
        return {output.name: _array(result, output.name) for output in result.get_response().outputs}

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _explain(self, error: Any, timeout_s: float) -> RankError:
        status = str(error.status() or "").removeprefix("StatusCode.")
        message = str(error.message())
        if status == "DEADLINE_EXCEEDED":
            return RankTimeoutError(f"no answer from {self._url} within {timeout_s * 1000:.0f} ms", status)
        if _BUSY in message:
            return ServerBusyError(message, status)
        if status == "UNAVAILABLE" or _not_served(message):
            # From the channel, when nobody listens, or from the server, for example while a release is published.
            nobody = f"no server answers gRPC at {self._url}: " if message.startswith(_UNCONNECTED) else ""
            return ServerUnavailableError(nobody + message.splitlines()[0], status)
        return RankError(message, status)


class HttpTransport:
    """HTTP with one connection for each call under way; connections are kept and used again.

    tritonclient's own HTTP client must not be shared by threads (gevent), so only its encoding is used here.
    """

    def __init__(self, url: str) -> None:
        import tritonclient.http as triton

        self._triton = triton
        self._url = url
        self._idle: deque[http.client.HTTPConnection] = deque()  # append and pop need no lock
        self._closed = False

    def infer(self, model: str, inputs: Tensors, timeout_s: float) -> dict[str, NDArray[Any]]:
        tensors = [_input(self._triton.InferInput, name, array) for name, array in inputs.items()]
        body, header_length = self._triton.InferenceServerClient.generate_request_body(tensors)
        headers = {"Content-Type": "application/octet-stream"}
        if header_length is not None:
            headers["Inference-Header-Content-Length"] = str(header_length)
        status, answered, answer = self._post(f"/v2/models/{model}/infer", body, headers, timeout_s)
        if status != 200:
            raise _http_error(status, answer)
        length = answered.get("Inference-Header-Content-Length")
        result = self._triton.InferenceServerClient.parse_response_body(
            answer, header_length=None if length is None else int(length)
        )
        return {output["name"]: _array(result, output["name"]) for output in result.get_response()["outputs"]}

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _post(self, path: str, body: bytes, headers: dict[str, str], timeout_s: float) -> tuple[int, Any, bytes]:
        while True:
            connection, used = self._take(timeout_s)
            try:
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                answer = response.read()
            except TimeoutError:
                connection.close()
                raise RankTimeoutError(f"no answer from {self._url} within {timeout_s * 1000:.0f} ms") from None
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # The server closes idle connections, and all of them when it is restarted: try the next. A ranking
                # changes nothing on the server, so asking twice is safe.
                if used:
                    continue
                raise ServerUnavailableError(f"no server answers HTTP at {self._url}: {error}") from None
            if response.will_close or self._closed:
                connection.close()
            else:
                self._idle.append(connection)
            return response.status, response.headers, answer

    def _take(self, timeout_s: float) -> tuple[http.client.HTTPConnection, bool]:
        """A connection, and whether it was used before."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return http.client.HTTPConnection(self._url, timeout=timeout_s), False
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        return connection, True


def _http_error(status: int, answer: bytes) -> RankError:
    try:
        message = str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        message = answer.decode(errors="replace") or f"HTTP status {status}"
    if _BUSY in message:
        return ServerBusyError(message, str(status))
    kind = ServerUnavailableError if status == 503 or _not_served(message) else RankError
    return kind(message, str(status))


def _not_served(message: str) -> bool:
    return any(part in message for part in _NOT_SERVED)


def _input(kind: Any, name: str, array: NDArray[Any]) -> Any:
    tensor = kind(name, list(array.shape), DATATYPES[array.dtype.name])
    tensor.set_data_from_numpy(array)
    return tensor


def _array(result: Any, name: str) -> NDArray[Any]:
    array = result.as_numpy(name)
    return np.empty(0) if array is None else array
