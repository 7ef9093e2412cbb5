"""From a batch of requests to their answers: each checked by itself, answered with its group, refused alone.

    batch -> parse -> group -> group 0 (the default tier)  -> answered in this call
                            -> other groups                -> the slow lane: a thread, which takes what has piled up

An execution of Triton returns when group 0 is answered, so the next batch of the default tier starts at once, and the
high tier runs beside it (ONNX Runtime releases Python's lock).
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from triton_ads.serving import counters as count
from triton_ads.serving.checks import Tensors, check_batch, check_deadline
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.lane import Lane
from triton_ads.serving.pace import Pace
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


@dataclass(frozen=True)
class _Asked:
    """A request that was read."""

    call: Call
    request: Any
    group: int = 0


class Dispatcher:
    """Answers batches with a service. It raises nothing: a failure of ours is the error of the request that met it.

    Args:
        largest: requests that a service answers at once.
        now: unix time in microseconds.
    """

    def __init__(self, service: Service, counters: Counters, largest: int, now: Callable[[], int] = now_us) -> None:
        self._service, self._counters, self._now = service, counters, now
        self._pace = Pace()
        self._lane: Lane[_Asked] = Lane(self._answer_by_group, largest)

    def execute(self, calls: Sequence[Call]) -> None:
        """Answer the calls of group 0; see to it that the others are answered."""
        self._counters.add(count.BATCHES)
        self._counters.add(count.REQUESTS, amount=len(calls))
        parsed: list[_Asked] = []
        for call in calls:
            try:
                tensors = call.tensors()
                check_batch(tensors)
                parsed.append(_Asked(call, self._service.parse(tensors)))
            except Exception as error:
                self._refuse(call, error)
        grouped = self._grouped(self._in_time(parsed))
        later = [asked for asked in grouped if asked.group]
        if later:
            for asked in later:
                asked.call.defer()
            self._lane.put(later)
        self._answer([asked for asked in grouped if not asked.group])

    def stop(self) -> None:
        """Answer what the slow lane still holds, and end it."""
        self._lane.stop()

    def _in_time(self, requests: list[_Asked]) -> list[_Asked]:
        """Refuse those that are too late."""
        alive, now = [], self._now()
        for asked in requests:
            try:
                check_deadline(asked.request.deadline_us, now)
                alive.append(asked)
            except RequestError as error:
                self._refuse(asked.call, error)
        return alive

    def _sure(self, group: list[_Asked]) -> list[_Asked]:
        """Refuse those that would be too late when the group is done."""
        if not group:
            return []
        now = self._now()
        left_us = [asked.request.deadline_us - now for asked in group]
        sure = []
        for asked, us, in_time in zip(group, left_us, self._pace.in_time(group[0].group, left_us), strict=True):
            if in_time:
                sure.append(asked)
            else:
                message = f"deadline exceeded: {us / 1000:.1f} ms are left, fewer than the requests before it take"
                self._refuse(asked.call, RequestError(Cause.DEADLINE, message))
        return sure

    def _grouped(self, requests: list[_Asked]) -> list[_Asked]:
        """Ask the service for the groups."""
        if not requests:
            return []
        try:
            groups = self._service.groups([asked.request for asked in requests])
        except Exception as error:
            if len(requests) == 1:
                self._refuse(requests[0].call, error)
                return []
            # One of them may be the reason: each gets what it would have got alone.
            return [grouped for asked in requests for grouped in self._grouped([asked])]
        return [_Asked(asked.call, asked.request, group) for asked, group in zip(requests, groups, strict=True)]

    def _answer_by_group(self, requests: list[_Asked]) -> None:
        groups: dict[int, list[_Asked]] = defaultdict(list)
        for asked in requests:
            groups[asked.group].append(asked)
        for number in sorted(groups):
            self._answer(groups[number])

    def _answer(self, group: list[_Asked]) -> None:
        """Answer the requests of one group that are still worth it."""
        alive = self._sure(self._in_time(group))
        if not alive:
            return
        began = self._now()
        try:
            answers = self._service.answer([asked.request for asked in alive])
            self._pace.ran(alive[0].group, len(alive), self._now() - began)
        except Exception as error:
            if len(alive) == 1:
                self._refuse(alive[0].call, error)
                return
            for one in alive:  # as in _grouped
                self._answer([one])
            return
        for asked, answer in zip(alive, answers, strict=True):
            try:
                if isinstance(answer, RequestError):
                    raise answer
                asked.call.answer(answer)
            except Exception as error:
                self._refuse(asked.call, error)

    def _refuse(self, call: Call, error: Exception) -> None:
        if not isinstance(error, RequestError):
            logger.error("a request failed", exc_info=error)
            error = RequestError(Cause.INTERNAL, f"internal error: {type(error).__name__}: {error}")
        self._counters.add(count.REFUSED, error.cause)
        try:
            call.refuse(error)
        except Exception:  # nobody to tell; the others of the batch, and the slow lane, must go on
            logger.exception("an error could not be sent: %s", error)
