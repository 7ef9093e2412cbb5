"""The dispatcher with services that fail on purpose."""

import threading

import numpy as np
import pytest

from tests.support.chain import LocalCall
from triton_ads.serving import counters as count
from triton_ads.serving.counters import Counters
from triton_ads.serving.dispatch import Dispatcher
from triton_ads.serving.errors import Cause, RequestError

FUTURE, PAST = 2_000, 500
NOW = 1_000


class Request:
    def __init__(self, value, group=0, deadline_us=FUTURE):
        self.value, self.number, self.deadline_us = value, group, deadline_us


class Doubler:
    """Doubles numbers; -1 cannot be parsed, -2 breaks the parser, 13 breaks every group it is in, 14 is refused, 15 has
    no group."""

    def __init__(self):
        self.answered = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def parse(self, tensors):
        value, group, deadline_us = tensors["x"][0].tolist()
        if value == -1:
            raise RequestError(Cause.WRONG_LENGTH, "x: -1 found, 0 or more allowed")
        if value == -2:
            raise KeyError("y")
        return Request(value, group, deadline_us)

    def groups(self, requests):
        if any(request.value == 15 for request in requests):
            raise ZeroDivisionError("15")
        return [request.number for request in requests]

    def answer(self, requests):
        values = [request.value for request in requests]
        self.entered.set()
        if requests[0].number:
            assert self.gate.wait(10)
        self.answered.append((requests[0].number, values))
        if 13 in values:
            raise FloatingPointError("13 is unlucky")
        return [
            RequestError(Cause.NOT_FINITE, "14") if value == 14 else {"y": np.array([[2 * value]])} for value in values
        ]

    def warm_up(self):
        pass


@pytest.fixture
def service():
    return Doubler()


@pytest.fixture
def counters():
    return Counters()


@pytest.fixture
def dispatcher(service, counters):
    running = Dispatcher(service, counters, largest=4, now=lambda: NOW)
    yield running
    service.gate.set()
    running.stop()


def calls(*values, group=0, deadline_us=FUTURE):
    return [LocalCall({"x": np.array([[value, group, deadline_us]])}) for value in values]


def results(batch):
    return [
        (answer.cause, str(answer)) if isinstance(answer, RequestError) else answer["y"].item()
        for answer in (call.wait() for call in batch)
    ]


def test_a_batch_is_one_group(dispatcher, service, counters):
    batch = calls(1, 2, 3)
    dispatcher.execute(batch)
    assert results(batch) == [2, 4, 6]
    assert service.answered == [(0, [1, 2, 3])]
    assert counters.drain() == {(count.BATCHES, ()): 1, (count.REQUESTS, ()): 3}


def test_an_empty_batch(dispatcher, service):
    dispatcher.execute([])
    assert service.answered == []


def test_a_request_that_cannot_be_parsed_is_refused_alone(dispatcher, service, counters):
    batch = calls(1, -1, 3, -2)
    dispatcher.execute(batch)
    assert results(batch) == [
        2,
        (Cause.WRONG_LENGTH, "x: -1 found, 0 or more allowed"),
        6,
        (Cause.INTERNAL, "internal error: KeyError: 'y'"),
    ]
    assert service.answered == [(0, [1, 3])]
    counted = counters.drain()
    assert counted[count.REFUSED, (Cause.WRONG_LENGTH,)] == counted[count.REFUSED, (Cause.INTERNAL,)] == 1


@pytest.mark.parametrize("users", [0, 2])
def test_a_request_of_several_users_or_none_is_refused_alone(dispatcher, service, users):
    wrong = LocalCall({"x": np.array([[5, 0, FUTURE]] * users)})
    batch = [*calls(1), wrong, *calls(3)]
    dispatcher.execute(batch)
    message = f"x: first dimension {users} found, 1 allowed: a request is one user's"
    assert results(batch) == [2, (Cause.WRONG_LENGTH, message), 6]
    assert service.answered == [(0, [1, 3])]


def test_a_request_that_cannot_be_grouped_is_refused_alone(dispatcher, service, counters):
    batch = calls(1, 15, 3)
    dispatcher.execute(batch)
    assert results(batch) == [2, (Cause.INTERNAL, "internal error: ZeroDivisionError: 15"), 6]
    assert service.answered == [(0, [1, 3])]
    assert counters.drain()[count.REFUSED, (Cause.INTERNAL,)] == 1


def test_a_request_that_breaks_its_group_breaks_only_itself(dispatcher, service):
    batch = calls(1, 13, 3)
    dispatcher.execute(batch)
    assert results(batch) == [2, (Cause.INTERNAL, "internal error: FloatingPointError: 13 is unlucky"), 6]
    assert service.answered == [(0, [1, 13, 3]), (0, [1]), (0, [13]), (0, [3])]


def test_a_service_may_refuse_one_of_a_group(dispatcher):
    batch = calls(14, 3)
    dispatcher.execute(batch)
    assert results(batch) == [(Cause.NOT_FINITE, "14"), 6]


def test_a_deadline_that_has_passed(dispatcher, service, counters):
    batch = [*calls(1, deadline_us=PAST), *calls(2, deadline_us=NOW)]
    dispatcher.execute(batch)
    assert results(batch) == [(Cause.DEADLINE, "deadline exceeded: it passed 0.5 ms ago"), 4]
    assert service.answered == [(0, [2])]
    assert counters.drain()[count.REFUSED, (Cause.DEADLINE,)] == 1


class BrokenCall(LocalCall):
    """An answer that cannot be sent; then not even an error can be, or it can."""

    def __init__(self, tensors, refusable):
        super().__init__(tensors)
        self.refusable = refusable

    def answer(self, outputs):
        raise MemoryError("no shared memory")

    def refuse(self, error):
        if not self.refusable:
            raise OSError("gone")
        super().refuse(error)


@pytest.mark.parametrize("group", [0, 1])
def test_an_answer_that_cannot_be_sent_stops_nobody(dispatcher, group):
    tensors = {"x": np.array([[1, group, FUTURE]])}
    broken, silent = BrokenCall(tensors, refusable=True), BrokenCall(tensors, refusable=False)
    batch = [silent, broken, *calls(2, group=group)]
    dispatcher.execute(batch)
    assert results(batch[1:]) == [(Cause.INTERNAL, "internal error: MemoryError: no shared memory"), 4]
    after = calls(3, group=group)
    dispatcher.execute(after)
    assert results(after) == [6]


def test_the_first_group_does_not_wait_for_the_others(dispatcher, service):
    service.gate.clear()
    slow, quick = calls(5, 6, group=2), calls(1)
    dispatcher.execute([slow[0], *quick, slow[1]])  # returns although the slow lane stands still
    assert results(quick) == [2]
    assert all(call.deferred and call.result is None for call in slow)
    assert not quick[0].deferred
    service.gate.set()
    assert results(slow) == [10, 12]


def test_what_piles_up_in_the_slow_lane_is_answered_together_group_by_group(dispatcher, service):
    service.gate.clear()
    first = calls(1, group=1)
    dispatcher.execute(first)
    later = [*calls(2, group=2), *calls(3, group=1), *calls(4, group=2), *calls(5, group=1)]
    for call in later:
        dispatcher.execute([call])
    service.gate.set()
    assert results(first + later) == [2, 4, 6, 8, 10]
    # The lane takes [1] or, if it was slow to wake, [1 2 3 4] at once; from then on at most 4, ordered by group.
    assert [values for _, values in service.answered] in ([[1], [3, 5], [2, 4]], [[1, 3], [2, 4], [5]])


def test_a_deadline_that_passes_in_the_slow_lane(service, counters):
    clock = [NOW]
    dispatcher = Dispatcher(service, counters, largest=4, now=lambda: clock[0])
    service.gate.clear()
    busy, waiting = calls(1, group=1, deadline_us=10 * FUTURE), calls(2, group=1)
    dispatcher.execute(busy)
    assert service.entered.wait(10)
    dispatcher.execute(waiting)
    clock[0] = FUTURE + 100
    service.gate.set()
    dispatcher.stop()
    assert results(busy) == [2]
    assert results(waiting) == [(Cause.DEADLINE, "deadline exceeded: it passed 0.1 ms ago")]


def test_stopping_answers_everything(dispatcher, service):
    batch = calls(*range(1, 11), group=1)
    dispatcher.execute(batch)
    dispatcher.stop()
    assert results(batch) == [2 * i for i in range(1, 11)]


def test_what_would_be_late_is_refused_before_it_is_run(service, counters):
    """Each request takes 300 us: of a batch of four with 500 to 1,400 us left, two can be in time."""
    clock = [NOW]

    class Slow(type(service)):
        def answer(self, requests):
            clock[0] += 300 * len(requests)
            return super().answer(requests)

    slow = Slow()
    running = Dispatcher(slow, counters, largest=4, now=lambda: clock[0])
    running.execute(calls(1, deadline_us=10_000))
    clock[0] = NOW
    batch = [
        call
        for value, left in ((1, 500), (2, 1400), (3, 700), (4, 1100))
        for call in calls(value, deadline_us=NOW + left)
    ]
    running.execute(batch)
    running.stop()
    found = results(batch)
    assert (found[1], found[3]) == (4, 8)
    late = "deadline exceeded: {} ms are left, fewer than the requests before it take"
    assert (found[0], found[2]) == ((Cause.DEADLINE, late.format(0.5)), (Cause.DEADLINE, late.format(0.7)))
    assert slow.answered == [(0, [1]), (0, [2, 4])]
    assert counters.drain()[count.REFUSED, (Cause.DEADLINE,)] == 2
