"""From a batch of requests to their answers: each checked by itself, answered with its group, refused alone.

    batch -> parse -> group 0 (the default tier)  -> answered in this call
                   -> other groups                -> the slow lane: a thread, which takes what has piled up

An execution of Triton returns when group 0 is answered, so the next batch of the default tier starts at once, and the
high tier runs beside it (ONNX Runtime releases Python's lock).
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from triton_ads.serving import counters as count
from triton_ads.serving.checks import Tensors, check_batch, check_deadline
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.lane import Lane
from triton_ads.serving.service import Outputs, Service, now_us

logger = logging.getLogger(__name__)


class Call(Protocol):
    """One request as it came, and the way back to its client. Exactly one of `answer` and `refuse` is called, once."""

    def tensors(self) -> Tensors:
        """Its inputs; they stay valid until the answer."""

    def defer(self) -> None:
        """The answer will come from another thread, after the batch's execution has returned."""

    def answer(self, outputs: Outputs) -> None: ...

    def refuse(self, error: RequestError) -> None: ...


class Dispatcher:
    """Answers batches with a service. It raises nothing: a failure of ours is the error of the request that met it.

    Args:
        largest: requests that a service answers at once.
        now: unix time in microseconds.
    """

    def __init__(self, service: Service, counters: Counters, largest: int, now: Callable[[], int] = now_us) -> None:
        self._service, self._counters, self._now = service, counters, now
        self._lane: Lane[tuple[Call, Any]] = Lane(self._answer_by_group, largest)

    def execute(self, calls: Sequence[Call]) -> None:
        """Answer the calls of group 0; see to it that the others are answered."""
        self._counters.add(count.BATCHES)
        self._counters.add(count.REQUESTS, amount=len(calls))
        now: list[tuple[Call, Any]] = []
        later: list[tuple[Call, Any]] = []
        for call in calls:
            try:
                tensors = call.tensors()
                check_batch(tensors)
                request = self._service.parse(tensors)
                (later if self._service.group(request) else now).append((call, request))
            except Exception as error:
                self._refuse(call, error)
        if later:
            for call, _ in later:
                call.defer()
            self._lane.put(later)
        if now:
            self._answer(now)

    def stop(self) -> None:
        """Answer what the slow lane still holds, and end it."""
        self._lane.stop()

    def _answer_by_group(self, items: list[tuple[Call, Any]]) -> None:
        groups: dict[int, list[tuple[Call, Any]]] = defaultdict(list)
        for call, request in items:
            groups[self._service.group(request)].append((call, request))
        for number in sorted(groups):
            self._answer(groups[number])

    def _answer(self, group: list[tuple[Call, Any]]) -> None:
        """Answer the requests of one group that are still worth it."""
        alive, now = [], self._now()
        for call, request in group:
            try:
                check_deadline(request.deadline_us, now)
                alive.append((call, request))
            except RequestError as error:
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
            try:
                if isinstance(answer, RequestError):
                    raise answer
                call.answer(answer)
            except Exception as error:
                self._refuse(call, error)

    def _refuse(self, call: Call, error: Exception) -> None:
        if not isinstance(error, RequestError):
            logger.error("a request failed", exc_info=error)
            error = RequestError(Cause.INTERNAL, f"internal error: {type(error).__name__}: {error}")
        self._counters.add(count.REFUSED, error.cause)
        try:
            call.refuse(error)
        except Exception:  # nobody to tell; the others of the batch, and the slow lane, must go on
            logger.exception("an error could not be sent: %s", error)
