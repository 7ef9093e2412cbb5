"""HTTP servers whose times and answers are known."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

NONE = -1  # a session without a process


@contextmanager
def server(answer, pages: Mapping[str, bytes] = MappingProxyType({})) -> Iterator[int]:
    """An HTTP server in a thread.

    Args:
        answer: a coroutine function of the writer and the request, called for each POST.
        pages: what a GET of each path is answered with; another's status is 404.
    """
    ready, stop = threading.Event(), threading.Event()
    port = []

    async def connection(reader, writer):
        while head := await read_head(reader):
            if head.startswith(b"GET"):
                path = head.split(b" ")[1].decode()
                respond(writer, 200 if path in pages else 404, pages.get(path, b""))
                continue
            body = await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
            await answer(writer, body)
        writer.close()

    async def read_head(reader):
        try:
            return await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return b""

    async def main():
        listening = await asyncio.start_server(connection, "127.0.0.1", 0)
        port.append(listening.sockets[0].getsockname()[1])
        ready.set()
        while not stop.is_set():
            await asyncio.sleep(0.01)
        listening.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield port[0]
    finally:
        stop.set()
        thread.join()


def respond(writer, status: int, body: bytes) -> None:
    writer.write(f"HTTP/1.1 {status} Any\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def post(body: bytes) -> bytes:
    return f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
