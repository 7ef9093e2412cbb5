"""Requests as bytes: prepared before the load, so that a generator's time for each is the same and small.

length of content | where the deadline stands in it | candidates | content        three times 4 bytes, and bytes
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.server.ports import HOST

_HEAD = struct.Struct("<III")
_DEADLINE = struct.Struct("<q")


@dataclass(frozen=True)
class Prepared:
    """One request of HTTP/1.1, head and body."""

    content: bytes
    #: Where the deadline, an int64 of microseconds of unix time, stands in `content`; 0: nowhere.
    deadline_at: int = 0
    candidates: int = 0

    def due_until(self, deadline_us: int) -> bytes:
        """The content with this deadline.

        >>> Prepared(b"GET 00000000 end", deadline_at=4).due_until(1)
        b'GET \\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00 end'
        """
        at = self.deadline_at
        return b"".join([self.content[:at], _DEADLINE.pack(deadline_us), self.content[at + _DEADLINE.size :]])


def triton_request(model: str, inputs: Mapping[str, NDArray[np.generic]]) -> Prepared:
    """A request to a model of Triton with binary tensors, on a connection that is kept.

    Args:
        inputs: by name, in order. `deadline_us` and what stands before it must be of fixed width: no strings.
    """
    # The generator reads prepared requests, and must not wait for these imports.
    import tritonclient.http as triton

    from triton_ads.client.request import DATATYPES

    tensors = []
    for name, array in inputs.items():
        tensor = triton.InferInput(name, list(array.shape), DATATYPES[array.dtype.name])
        tensor.set_data_from_numpy(array)
        tensors.append(tensor)
    body, json_length = triton.InferenceServerClient.generate_request_body(tensors)
    content = post(f"/v2/models/{model}/infer", body, f"Inference-Header-Content-Length: {json_length}\r\n")
    deadline_at = 0
    if "deadline_us" in inputs:
        names = list(inputs)
        before = sum(inputs[name].nbytes for name in names[: names.index("deadline_us")])
        deadline_at = len(content) - len(body) + json_length + before
    return Prepared(content, deadline_at, inputs["candidates"].size if "candidates" in inputs else 0)


def post(path: str, body: bytes, headers: str = "") -> bytes:
    """The bytes of a POST; `headers` end in a line's end each."""
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/octet-stream\r\n{headers}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def write_requests(requests: Sequence[Prepared], path: Path) -> None:
    """One after the other."""
    heads = (_HEAD.pack(len(r.content), r.deadline_at, r.candidates) for r in requests)
    path.write_bytes(b"".join(head + r.content for head, r in zip(heads, requests, strict=True)))


def read_requests(path: Path) -> list[Prepared]:
    content, requests, start = path.read_bytes(), [], 0
    while start < len(content):
        length, deadline_at, candidates = _HEAD.unpack_from(content, start)
        start += _HEAD.size
        requests.append(Prepared(content[start : start + length], deadline_at, candidates))
        start += length
    return requests
