"""What the server says of a stretch of time: the difference of two readings of its statistics and metrics."""

import json
import urllib.request
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from time import sleep
from typing import Self

from triton_ads.loadtest.report import ModelTimes, TierShare, TileFill
from triton_ads.loadtest.statistics import ModelStatistics, ServerError, TritonStatistics, between
from triton_ads.server.metrics import REPORT_S, read_series

_CHOICES, _CANDIDATES, _SLOTS, _REFUSED = (
    f"triton_ads_{name}_total" for name in ("tier_choices", "candidates", "tile_slots", "refused")
)
_SUCCEEDED, _FAILED = "nv_inference_request_success", "nv_inference_request_failure"

_REJECTED = "REJECTED"  # a reason of the latter: a queue was full
_TIMEOUT_S = 5

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Reading:
    """One look. The metrics are empty where the page cannot be read."""

    models: dict[str, ModelStatistics]
    metrics: dict[tuple[str, Labels], float]
    canaries: int  # requests of the watchdog that were answered; 0 where it cannot be asked


class Observer:
    """Looks at one model of one server.

    Args:
        url: host:port of the server's HTTP endpoint.
        model: that is asked.
        metrics_url: of the metrics page; None: there is none.
        status_url: where the server's watchdog says how often it has asked; None: nowhere.
    """

    def __init__(self, url: str, model: str, metrics_url: str | None = None, status_url: str | None = None) -> None:
        self._statistics, self._metrics_url, self._status_url = TritonStatistics(url), metrics_url, status_url
        self._port = int(url.rpartition(":")[2])
        self.model = model
        self.chain = self._statistics.chain(model)

    def read(self) -> Reading:
        """What happened so far; call it when no request is under way.

        Raises:
            ServerError: no answer, or no metrics page where there should be one.
        """
        metrics: dict[tuple[str, Labels], float] = {}
        if self._metrics_url is not None:
            sleep(REPORT_S)
            for name, labels, value in self._series(self._metrics_url):
                if labels.get("model") in (self.model, *self.chain):
                    key = name, tuple(sorted(labels.items()))
                    metrics[key] = metrics.get(key, 0.0) + value
        return Reading(self._statistics.read(), metrics, self._canaries())

    def _series(self, url: str) -> list[tuple[str, dict[str, str], float]]:
        try:
            return read_series(url)
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise ServerError(
                f"no metrics page at {url} ({reason}): --metrics-port says where it is, 0 that there is none"
            ) from None

    def _canaries(self) -> int:
        if self._status_url is None:
            return 0
        try:
            with urllib.request.urlopen(self._status_url, timeout=_TIMEOUT_S) as answer:
                status = json.loads(answer.read())
        except (OSError, ValueError):
            return 0
        # Somebody else's watchdog may stand at the usual port.
        counts = status["counts"] if status["ports"]["HTTP"] == self._port else {"canaries": 0, "canary_failures": 0}
        return int(counts["canaries"] - counts["canary_failures"])


@dataclass(frozen=True)
class Stretch:
    """What the server did between two readings."""

    model: str
    chain: Sequence[str]
    before: Reading
    after: Reading

    @classmethod
    def since(cls, before: Reading, observer: Observer) -> Self:
        return cls(observer.model, observer.chain, before, observer.read())

    def statistics(self, model: str | None = None) -> ModelStatistics:
        return between(self.before.models, self.after.models, model or self.model)

    @property
    def canaries(self) -> int:
        """Requests of the watchdog's, each with one candidate."""
        return max(0, self.after.canaries - self.before.canaries)

    def asked(self) -> int:
        """Requests that the first model of the chain took, by Triton's statistics: answered, refused or rejected.

        Why the first: of an ensemble Triton 2.51 counts each refused request twice, and of a model that refuses by
        itself each is a success (seen; tests/loadtest/test_real_server.py).
        """
        first = self.statistics(self.chain[0])
        return first.succeeded + first.failed

    def asked_by_metrics(self) -> float | None:
        """The same by Triton's metrics; None where there is no page."""
        found = [
            v for name in (_SUCCEEDED, _FAILED) for (m,), v in self._by(name, "model").items() if m == self.chain[0]
        ]
        return sum(found) if found else None

    def answered(self) -> int | None:
        """Requests that an ensemble answered well; None where it is none."""
        return self.statistics().succeeded if self.model not in self.chain else None

    def refused(self) -> float | None:
        """Requests answered with an error by the models, or rejected by their queues; None where there is no page."""
        if not self.after.metrics:
            return None
        rejected = [
            v for (m, why), v in self._by(_FAILED, "model", "reason").items() if why == _REJECTED and m in self.chain
        ]
        return sum(self._by(_REFUSED, "cause").values()) + sum(rejected)

    def times(self) -> list[ModelTimes]:
        """Means of every model of the chain that did something."""
        found = []
        for model in self.chain:
            s = self.statistics(model)
            n = max(1, s.succeeded) * 1e6
            if s.succeeded:
                parts = (s.queue_ns, s.compute_input_ns, s.compute_infer_ns, s.compute_output_ns)
                queue, given, compute, output = (part / n for part in parts)
                found.append(
                    ModelTimes(
                        model=model,
                        requests=s.inferences,
                        executions=s.executions,
                        queue_ms=queue,
                        input_ms=given,
                        compute_ms=compute,
                        output_ms=output,
                    )
                )
        return found

    def tiers(self) -> list[TierShare]:
        """What the router chose and why; the most frequent first."""
        found = self._by(_CHOICES, "tier", "reason").items()
        shares = [TierShare(tier=tier, reason=reason, requests=round(n)) for (tier, reason), n in found if n]
        return sorted(shares, key=lambda share: -share.requests)

    def fills(self) -> list[TileFill]:
        """How full the tiles of each tier were."""
        candidates, slots = self._by(_CANDIDATES, "tier"), self._by(_SLOTS, "tier")
        return [
            TileFill(tier=key[0], candidates=round(candidates.get(key, 0)), slots=round(n))
            for key, n in sorted(slots.items())
            if n
        ]

    def candidates(self) -> float | None:
        """Candidates scored; None where the models do not say."""
        found = self._by(_CANDIDATES, "tier")
        return sum(found.values()) if found else None

    def _metrics(self) -> dict[tuple[str, Labels], float]:
        return {key: value - self.before.metrics.get(key, 0.0) for key, value in self.after.metrics.items()}

    def _by(self, metric: str, *names: str) -> dict[tuple[str, ...], float]:
        found: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for (name, labels), value in self._metrics().items():
            if name == metric:
                found[tuple(dict(labels)[n] for n in names)] += value
        return dict(found)
