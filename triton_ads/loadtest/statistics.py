"""Triton's own statistics of its models, over HTTP; what happened between two readings is their difference."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

_TIMEOUT_S = 5
_PARTS = ("queue", "compute_input", "compute_infer", "compute_output")


class ServerError(RuntimeError):
    """The server does not answer, or not as a Triton that could be tested; the message says what to do."""


@dataclass(frozen=True)
class ModelStatistics:
    """Counts, and nanoseconds summed over requests, of all versions of a model."""

    succeeded: int = 0
    failed: int = 0
    inferences: int = 0
    executions: int = 0
    queue_ns: int = 0  # as the others, of requests that succeeded
    compute_input_ns: int = 0
    compute_infer_ns: int = 0
    compute_output_ns: int = 0

    def __sub__(self, before: Self) -> Self:
        return self._each(before, -1)

    def __add__(self, other: Self) -> Self:
        return self._each(other, 1)

    def _each(self, other: Self, sign: int) -> Self:
        return type(self)(*(getattr(self, f.name) + sign * getattr(other, f.name) for f in fields(self)))


class TritonStatistics:
    """One server.

    Args:
        url: host:port of its HTTP endpoint.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def server_version(self) -> str:
        """
        Raises:
            ServerError: nobody answers.
        """
        return str(self._get("/v2")["version"])

    def check_ready(self, model: str) -> None:
        """
        Raises:
            ServerError: nobody answers, the server is not ready, or it does not serve the model.
        """
        self._get("/v2")
        for path, problem in (
            ("/v2/health/ready", "it is not ready; its health endpoint or its log says why"),
            (f"/v2/models/{model}/ready", f"it does not serve the model {model!r}; name another with --model"),
        ):
            try:
                urllib.request.urlopen(f"http://{self.url}{path}", timeout=_TIMEOUT_S).close()
            except urllib.error.HTTPError:
                raise ServerError(f"the server at {self.url} cannot be tested: {problem}") from None

    def chain(self, model: str) -> tuple[str, ...]:
        """The models behind an ensemble, in their order; the model itself where it is none."""
        config = self._get(f"/v2/models/{model}/config")
        steps = config.get("ensemble_scheduling", {}).get("step", [])
        return tuple(step["model_name"] for step in steps) or (model,)

    def read(self) -> dict[str, ModelStatistics]:
        """All loaded models since they were loaded."""
        found: dict[str, ModelStatistics] = {}
        for entry in self._get("/v2/models/stats")["model_stats"]:
            found[entry["name"]] = found.get(entry["name"], ModelStatistics()) + _parse(entry)
        return found

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://{self.url}{path}", timeout=_TIMEOUT_S) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise ServerError(f"the server at {self.url} answers {path} with HTTP status {error.code}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ServerError(
                f"no Triton answers HTTP at {self.url} ({reason}); start one with: triton-ads serve"
            ) from None


def between(before: Mapping[str, ModelStatistics], after: Mapping[str, ModelStatistics], model: str) -> ModelStatistics:
    """What a model did between two readings."""
    return after.get(model, ModelStatistics()) - before.get(model, ModelStatistics())


def _parse(entry: Mapping[str, Any]) -> ModelStatistics:
    sums = entry["inference_stats"]
    return ModelStatistics(
        int(sums["success"]["count"]),
        int(sums["fail"]["count"]),
        int(entry["inference_count"]),
        int(entry["execution_count"]),
        *(int(sums[part]["ns"]) for part in _PARTS),
    )
