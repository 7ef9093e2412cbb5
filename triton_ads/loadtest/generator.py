"""The load generator: one thread, prepared requests, as little work as possible for each.

    python -m triton_ads.loadtest.generator --port N --requests FILE --load '{"kind": "open", "size": 100, ...}'

Prints an `Outcome` as JSON. Nothing is under way on the server when it ends.
"""

import argparse
import asyncio
import gc
import json
import selectors
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from triton_ads.loadtest.load import CONNECTIONS, ROUNDS, WARM_UP_S, Load, Outcome, poisson_arrivals
from triton_ads.loadtest.requests import Prepared, read_requests
from triton_ads.server.ports import HOST

_now = time.perf_counter
NOT_SENT = "never sent"  # every connection was busy until the load ended
_GREETING = f"GET /v2/health/live HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()  # whatever the answer is


class Connection(asyncio.Protocol):
    """One kept connection of HTTP/1.1 with one request at a time.

    Args:
        answered: called with the connection, the status and the body of each response.
    """

    def __init__(self, answered: Callable[["Connection", int, bytes], None], lost: asyncio.Future[None]) -> None:
        self._answered, self._lost = answered, lost
        self._buffer = bytearray()
        self._body = self._end = 0  # of the response under way; 0 while its head is not whole
        self._transport: asyncio.Transport | None = None

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._end:
            head = self._buffer.find(b"\r\n\r\n")
            if head < 0:
                return
            self._body = head + 4
            self._end = self._body + _content_length(bytes(self._buffer[: self._body]))
        if len(self._buffer) >= self._end:
            status, body = int(self._buffer[9:12]), bytes(self._buffer[self._body : self._end])
            del self._buffer[: self._end]
            self._end = 0
            self._answered(self, status, body)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_exception(ConnectionError(f"the server closed a connection: {error or 'no reason given'}"))


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError(f"a response without Content-Length: {head!r}")


@dataclass(frozen=True)
class Done:
    """A request that was answered, or given up."""

    asked: float  # or due
    done: float
    failure: str  # "": answered well
    number: int  # of the prepared request; -1: none was sent
    candidates: int


class Generator:
    """Applies one load to a server."""

    def __init__(self, load: Load, requests: list[Prepared]) -> None:
        self._load, self._requests = load, requests
        self._random = np.random.default_rng(load.seed)
        self._next = int(self._random.integers(len(requests)))
        self._asked: dict[Connection, tuple[float, int]] = {}  # under way: when it was sent, or due; its number
        self._waiting: deque[float] = deque()  # due, and no connection is free
        self._idle: list[Connection] = []
        self._done: list[Done] = []
        self._first_error = ""
        self._sending = False  # each answer is followed by another request

    async def run(self, port: int) -> Outcome:
        loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = loop.create_future()
        count = int(self._load.size) if self._load.kind == "closed" else CONNECTIONS
        connections = []
        for _ in range(count):
            _, connection = await loop.create_connection(lambda: Connection(self._answered, self._lost), HOST, port)
            connections.append(connection)
            # Some servers accept one connection a round of their loop, and would starve the last ones for seconds.
            self._asked[connection] = _now(), 0
            connection.send(_GREETING)
            await self._drain()
        self._done.clear()
        self._first_error = ""
        gc.disable()
        outcome = await (self._closed() if self._load.kind == "closed" else self._open())
        self._lost.cancel()
        for connection in connections:
            connection.close()
        return outcome

    async def _closed(self) -> Outcome:
        """The window begins after as many answers as there are clients: until then queues are shorter than later.

        It lasts for ROUNDS answers a client at the least. Servers that batch answer in lumps, so it begins and ends
        with an answer: else what a part of a lump's time is taken for depends on chance.
        """
        clients, begin = len(self._idle), _now()
        self._sending = True
        while self._idle:
            self._send(self._idle.pop(), _now())
        await self._until(lambda: len(self._done) >= clients and _now() >= begin + WARM_UP_S)
        before, moment, used = len(self._done), _now(), time.process_time()
        enough = before + ROUNDS * clients
        await self._until(lambda: len(self._done) >= enough and _now() >= moment + self._load.seconds)
        busy = (time.process_time() - used) / (_now() - moment)
        self._sending = False
        window = self._done[before:]
        await self._drain()
        begin = self._done[before - 1].done
        return self._outcome(begin, window, window, window[-1].done - begin, busy)

    async def _open(self) -> Outcome:
        begin, used = _now(), time.process_time()
        start, end = begin + WARM_UP_S, begin + WARM_UP_S + self._load.seconds
        for at in (begin + poisson_arrivals(self._load.size, end - begin, self._random)).tolist():
            delay = at - _now()
            if delay > 0:
                await asyncio.sleep(delay)
            if self._idle:
                self._send(self._idle.pop(), at)
            else:
                self._waiting.append(at)
        await asyncio.sleep(max(0.0, end - _now()))
        busy = (time.process_time() - used) / (_now() - begin)
        given_up = [Done(due, _now(), NOT_SENT, -1, 0) for due in self._waiting]
        if given_up:
            self._first_error = self._first_error or f"{len(given_up)} requests were due and could not be sent"
        self._waiting.clear()
        await self._drain()
        asked = [d for d in self._done + given_up if start <= d.asked < end]
        return self._outcome(start, asked, [d for d in self._done if start <= d.done < end], self._load.seconds, busy)

    def _outcome(self, begin: float, requests: list[Done], answers: list[Done], seconds: float, busy: float) -> Outcome:
        well = [d for d in self._done if not d.failure]
        return Outcome(
            seconds=seconds,
            ms=[(d.done - d.asked) * 1e3 for d in requests],
            answered=sum(not d.failure for d in answers),
            errors=sum(bool(d.failure) for d in requests),
            first_error=self._first_error,
            served=len(self._done),
            busy=busy,
            due_s=[d.asked - begin for d in requests],
            failures=[d.failure for d in requests],
            candidates=[d.candidates for d in requests],
            numbers=[d.number for d in requests],
            served_well=len(well),
            served_candidates=sum(d.candidates for d in well),
        )

    def _send(self, connection: Connection, asked: float) -> None:
        self._next = (self._next + 1) % len(self._requests)
        request = self._requests[self._next]
        self._asked[connection] = asked, self._next
        if self._load.deadline_ms and request.deadline_at:
            left_us = (asked - _now()) * 1e6 + self._load.deadline_ms * 1e3
            connection.send(request.due_until(time.time_ns() // 1000 + round(left_us)))
        else:
            connection.send(request.content)

    def _answered(self, connection: Connection, status: int, body: bytes) -> None:
        asked, number = self._asked.pop(connection)
        failure = "" if status == 200 else f"HTTP {status}: {body[:200].decode(errors='replace')}"
        self._done.append(Done(asked, _now(), failure, number, self._requests[number].candidates))
        self._first_error = self._first_error or failure
        if self._sending:
            self._send(connection, _now())
        elif self._waiting:
            self._send(connection, self._waiting.popleft())
        else:
            self._idle.append(connection)

    async def _drain(self) -> None:
        await self._until(lambda: not self._asked)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._lost.done():
                self._lost.result()  # raises
            await asyncio.sleep(0.002)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True, help="on 127.0.0.1")
    parser.add_argument("--requests", type=Path, required=True, help="as requests.write_requests writes them")
    parser.add_argument("--load", type=json.loads, required=True, help="JSON: the fields of load.Load")
    args = parser.parse_args()
    # epoll waits whole milliseconds, select microseconds: a request goes out when it is due.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    generator = Generator(Load(**args.load), read_requests(args.requests))
    print(loop.run_until_complete(generator.run(args.port)).to_json())


if __name__ == "__main__":
    main()
