"""From a batch of requests to their answers: each checked by itself, answered with its group, refused alone."""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from triton_ads.serving import counters as count
from triton_ads.serving.checks import Tensors, check_deadline
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.service import Outputs, Service, now_us

logger = logging.getLogger(__name__)


class Call(Protocol):
    """One request as it came, and the way back to its client. Exactly one of `answer` and `refuse` is called."""

    def tensors(self) -> Tensors: ...

    def cancelled(self) -> bool: ...

    def answer(self, outputs: Outputs) -> None: ...

    def refuse(self, error: RequestError) -> None: ...


class Dispatcher:
    """Answers batches with a service. It raises nothing: a failure of ours is a refusal of the request that met it."""

    def __init__(self, service: Service, counters: Counters, now: Callable[[], int] = now_us) -> None:
        self._service, self._counters, self._now = service, counters, now

    def execute(self, calls: Sequence[Call]) -> None:
        """Answer every call."""
        self._counters.add(count.BATCHES)
        self._counters.add(count.REQUESTS, amount=len(calls))
        groups: dict[int, list[tuple[Call, Any]]] = defaultdict(list)
        for call in calls:
            try:
                request = self._service.parse(call.tensors())
                groups[self._service.group(request)].append((call, request))
            except Exception as error:
                self._refuse(call, error)
        for group in sorted(groups):
            self._answer(groups[group])

    def _answer(self, group: list[tuple[Call, Any]]) -> None:
        """Answer the requests of one group that are still worth it."""
        alive = []
        now = self._now()
        for call, request in group:
            try:
                check_deadline(request.deadline_us, now)
                if call.cancelled():
                    raise RequestError(Cause.CANCELLED, "cancelled by the client")
                alive.append((call, request))
            except Exception as error:
                self._refuse(call, error)
        if not alive:
            return
        try:
            answers = self._service.answer([request for _, request in alive])
        except Exception as error:
            if len(alive) == 1:
                self._refuse(alive[0][0], error)
                return
            # One of them may be the reason: each gets what it would have got alone.
            for one in alive:
                self._answer([one])
            return
        for (call, _), answer in zip(alive, answers, strict=True):
            if isinstance(answer, RequestError):
                self._refuse(call, answer)
            else:
                call.answer(answer)

    def _refuse(self, call: Call, error: Exception) -> None:
        if not isinstance(error, RequestError):
            logger.error("a request failed", exc_info=error)
            error = RequestError(Cause.INTERNAL, f"internal error: {type(error).__name__}: {error}")
        self._counters.add(count.REFUSED, error.cause)
        call.refuse(error)
