"""The edge to Triton: the only file that knows its Python backend. A model is this class and a service.

The module `triton_python_backend_utils` exists inside Triton's Python stub only, so it is imported when a model is
loaded, and everything else in triton_ads.serving can be run and tested without Triton.
"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triton_ads.recipe.names import RELEASE_LINK
from triton_ads.serving.checks import Tensors
from triton_ads.serving.counters import METRICS, Counters, Metric, Reporter
from triton_ads.serving.dispatch import Dispatcher
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.load_report import LoadSender
from triton_ads.serving.service import Outputs, Service


class TritonModel:
    """What Triton's Python backend loads as `TritonPythonModel`; a model says how its service is made."""

    def build(self, folder: Path, counters: Counters) -> Service:
        """The service of the release in `folder`."""
        raise NotImplementedError

    def initialize(self, args: dict[str, str]) -> None:
        """Load and check the release beside model.py, and warm up. An error here refuses the version."""
        self._pb = importlib.import_module("triton_python_backend_utils")
        folder = Path(args["model_repository"]) / args["model_version"] / RELEASE_LINK
        counters = Counters()
        service = self.build(folder, counters)
        service.warm_up()
        counters.drain()
        config = json.loads(args["model_config"])
        self._dispatcher = Dispatcher(service, counters, config["max_batch_size"])
        metrics = TritonMetrics(self._pb, args["model_name"])
        self._load = LoadSender(folder, sum(group["count"] for group in config["instance_group"]))

        def sink(metric: Metric, labels: tuple[str, ...], amount: float) -> None:
            metrics.add(metric, labels, amount)
            self._load.add(metric, labels, amount)

        self._reporter = Reporter(counters, sink)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer a batch of requests. Raises nothing: an exception would fail every request of the batch.

        Returns:
            The responses; None where the slow lane will send it.
        """
        calls = [TritonCall(self._pb, request) for request in requests]
        self._dispatcher.execute(calls)
        return [call.response for call in calls]

    def finalize(self) -> None:
        self._dispatcher.stop()
        self._reporter.stop()
        self._load.close()
        del self._dispatcher  # the engines with it


class TritonCall:
    """One request of Triton's Python backend, and the way to its response.

    Whether its client cancelled it is not asked: the question is a message to Triton's process that takes 0.1 ms, for
    each request of a batch, and within an ensemble the answer is always no (Triton 2.51), whose next step Triton itself
    does not begin for a cancelled request.
    """

    def __init__(self, pb: Any, request: Any) -> None:
        # The request is kept until it is answered: its inputs lie in shared memory that it owns.
        self._pb, self._request = pb, request
        self._sender: Any = None
        self.response: Any = None

    def tensors(self) -> Tensors:
        return {tensor.name(): tensor.as_numpy() for tensor in self._request.inputs()}

    def defer(self) -> None:
        self._sender = self._request.get_response_sender()

    def answer(self, outputs: Outputs) -> None:
        tensors = [self._pb.Tensor(name, array) for name, array in outputs.items()]
        self._respond(self._pb.InferenceResponse(tensors))

    def refuse(self, error: RequestError) -> None:
        code = getattr(self._pb.TritonError, _CODES.get(error.cause, "INVALID_ARG"))
        self._respond(self._pb.InferenceResponse(output_tensors=[], error=self._pb.TritonError(str(error), code)))

    def _respond(self, response: Any) -> None:
        if self._sender is None:
            self.response = response
        else:
            self._sender.send(response, flags=self._pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


#: Triton's error code where it is not the client that asked for something that is not allowed.
_CODES = {Cause.DEADLINE: "CANCELLED", Cause.OTHER_RELEASE: "UNAVAILABLE", Cause.INTERNAL: "INTERNAL"}


class TritonMetrics:
    """Counters in Triton's own metrics endpoint. Only one thread may use it: the reporter."""

    def __init__(self, pb: Any, model: str) -> None:
        self._model = model
        self._families = {
            metric: pb.MetricFamily(name=metric.name, description=metric.help, kind=pb.MetricFamily.COUNTER)
            for metric in METRICS
        }
        self._series: dict[tuple[Metric, tuple[str, ...]], Any] = {}

    def add(self, metric: Metric, labels: tuple[str, ...], amount: float) -> None:
        series = self._series.get((metric, labels))
        if series is None:
            named = {"model": self._model, **dict(zip(metric.labels, labels, strict=True))}
            series = self._series[metric, labels] = self._families[metric].Metric(labels=named)
        series.increment(amount)
