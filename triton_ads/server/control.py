"""Triton's control over HTTP: health, the repository's index, load and unload. Standard library only."""

import http.client
import json
from dataclasses import dataclass
from typing import Any


class ControlError(RuntimeError):
    """Triton refused, or did not answer in time."""


@dataclass(frozen=True)
class ModelState:
    """One version of one model in the repository's index."""

    model: str
    version: str  # "" for a model that was never loaded
    state: str  # READY, LOADING, UNLOADING, UNAVAILABLE or ""
    reason: str

    @property
    def ready(self) -> bool:
        return self.state == "READY"


#: The header, and metadata `triton-grpc-protocol-` + it of gRPC, that carries the key of a server that wants one.
KEY_HEADER = "triton-ads-key"
#: What clients never need: loading models, mapping shared memory, changing what is traced and logged.
RESTRICTED = "model-repository,shared-memory,trace,logging"


class TritonControl:
    """Short requests to one server, a connection each; for a launcher, not for traffic."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url = url  # host:port
        self.headers = {KEY_HEADER: key} if key else {}

    def live(self, timeout_s: float = 1.0) -> bool:
        try:
            self._call("GET", "/v2/health/live", timeout_s)
        except ControlError:
            return False
        return True

    def index(self, timeout_s: float = 2.0) -> list[ModelState]:
        """Every model of the repository.

        Raises:
            ControlError: no answer.
        """
        answer = json.loads(self._call("POST", "/v2/repository/index", timeout_s))
        return [
            ModelState(m["name"], m.get("version", ""), m.get("state", ""), m.get("reason", "").strip()) for m in answer
        ]

    def executions(self, timeout_s: float = 2.0) -> dict[str, int]:
        """Executions of each loaded model since it was loaded, of all its versions: batches that were answered.

        Raises:
            ControlError: no answer.
        """
        found: dict[str, int] = {}
        for (model, _), count in self.executions_by_version(timeout_s).items():
            found[model] = found.get(model, 0) + count
        return found

    def executions_by_version(self, timeout_s: float = 2.0) -> dict[tuple[str, int], int]:
        """The same of each version of a model: (model, version) -> executions. Raises as `executions`."""
        answer = json.loads(self._call("GET", "/v2/models/stats", timeout_s))
        return {(m["name"], int(m["version"])): int(m["execution_count"]) for m in answer["model_stats"]}

    def load(self, model: str, timeout_s: float) -> None:
        """Load a model, or load it again if its files have changed; returns when it is ready.

        Raises:
            ControlError: it cannot be loaded, or not in time.
        """
        self._call("POST", f"/v2/repository/models/{model}/load", timeout_s, {})

    def unload(self, model: str, timeout_s: float) -> None:
        """Unload a model; returns before it is gone.

        Raises:
            ControlError: no answer.
        """
        self._call("POST", f"/v2/repository/models/{model}/unload", timeout_s, {})

    def _call(self, method: str, path: str, timeout_s: float, body: Any = None) -> bytes:
        connection = http.client.HTTPConnection(self.url, timeout=timeout_s)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), self.headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ControlError(f"{method} {path}: {error or type(error).__name__}") from None
        finally:
            connection.close()
        if response.status != 200:
            raise ControlError(f"{method} {path}: status {response.status}: {_error_text(answer)}")
        return answer


def _error_text(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")
