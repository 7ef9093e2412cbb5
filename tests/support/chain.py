"""`rank` without Triton in both layouts: three services behind their dispatchers, one after the other, or one."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from triton_ads.recipe import Recipe
from triton_ads.serving.counters import Counters, Metric
from triton_ads.serving.dispatch import Dispatcher
from triton_ads.serving.encoder_model import UserEncoderService
from triton_ads.serving.errors import RequestError
from triton_ads.serving.rank_model import RankService
from triton_ads.serving.release import Release
from triton_ads.serving.router_model import Router
from triton_ads.serving.scorer_model import ItemScorer
from triton_ads.serving.service import Service

Tensors = dict[str, NDArray[Any]]


class LocalCall:
    """A request in this process. An answer given twice is an error of the dispatcher."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self._tensors = dict(tensors)
        for array in self._tensors.values():
            array.flags.writeable = False  # a service must not change what it is given
        self.result: Tensors | RequestError | None = None
        self.deferred = False
        self._done = threading.Event()

    def tensors(self) -> Mapping[str, NDArray[Any]]:
        return self._tensors

    def defer(self) -> None:
        assert self.result is None
        self.deferred = True

    def answer(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        self._finish(dict(outputs))

    def refuse(self, error: RequestError) -> None:
        self._finish(error)

    def _finish(self, result: Tensors | RequestError) -> None:
        assert self.result is None, "answered twice"
        self.result = result
        self._done.set()

    def wait(self) -> Tensors | RequestError:
        assert self._done.wait(10), "never answered"
        assert self.result is not None
        return self.result


class Chain:
    """Answers batches as the ensemble does: what one step refuses does not reach the next."""

    def __init__(self, release: Path) -> None:
        opened = Release.open(release)
        self.recipe: Recipe = opened.recipe
        self.counters = Counters()
        self._steps = [Dispatcher(s, self.counters, self.recipe.serving.max_batch_requests) for s in self._open(opened)]

    def _open(self, release: Release) -> Sequence[Service]:
        """The services in the order in which a request meets them."""
        self.router = Router(release, self.counters)
        self.encoder, self.scorer = UserEncoderService(release, self.counters), ItemScorer(release, self.counters)
        return self.router, self.encoder, self.scorer

    def rank(self, batch: Sequence[Tensors]) -> list[Tensors | RequestError]:
        """One batch through all steps: for each request every tensor of the ensemble, or its error."""
        known: list[Tensors | RequestError] = [dict(tensors) for tensors in batch]
        for step in self._steps:
            alive = [i for i, tensors in enumerate(known) if not isinstance(tensors, RequestError)]
            calls = {i: LocalCall(known[i]) for i in alive}  # type: ignore[arg-type]
            step.execute(list(calls.values()))
            for i, call in calls.items():
                result, tensors = call.wait(), known[i]
                assert not isinstance(tensors, RequestError)
                known[i] = result if isinstance(result, RequestError) else {**tensors, **result}
        return known

    def one(self, tensors: Tensors) -> Tensors:
        """The answer to one request; raises its error."""
        (answer,) = self.rank([tensors])
        if isinstance(answer, RequestError):
            raise answer
        return answer

    def counted(self) -> dict[tuple[Metric, tuple[str, ...]], float]:
        """What was counted since the last call."""
        return self.counters.drain()

    def close(self) -> None:
        for step in self._steps:
            step.stop()


class Single(Chain):
    """Answers batches as the model of the layout `single` does."""

    def _open(self, release: Release) -> Sequence[Service]:
        self.service = RankService(release, self.counters)
        self.router = self.service.router
        return (self.service,)
