"""Requests that are nearly right: what a broken client, another version or an attacker sends. Seeded, so repeatable."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from tritonclient.grpc import service_pb2 as pb

from tests.support.tiny_release import ITEMS, USERS
from triton_ads.client.request import DATATYPES, json_body, rank_inputs

#: Sizes are bounded: the wheel's server believes a shape before it looks at the data (docs/drills.md), and allocates.
_DIMS = (0, 1, 2, 3, 64, 1000, -1, -(2**31))
_NUMBERS = (0, -1, 1, 2**31, 2**63 - 1, -(2**63), 1e308, "NaN", "1", None, True, [], {}, "\u0000")
_TYPES = ("INT64", "INT32", "FP32", "FP64", "BOOL", "BYTES", "UINT8", "FP16", "int64", "", 7)


def _good() -> dict[str, Any]:
    return json.loads(json_body(rank_inputs(ITEMS[:5], user_id=USERS[7])))


def http_bodies(count: int, seed: int) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Bodies and headers of HTTP requests."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        body = _good()
        for _ in range(int(random.integers(1, 4))):
            _break(body, random)
        text = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        match random.integers(6):
            case 0:
                text = _tear(text, random)
            case 1:  # a binary part that is not there, or of another length
                headers["Inference-Header-Content-Length"] = str(
                    random.choice(["0", "7", str(len(text)), "-1", "x", "99"])
                )
            case 2:
                text += random.bytes(int(random.integers(64)))
        yield text, headers


def _break(body: dict[str, Any], random: np.random.Generator) -> None:
    inputs = body.get("inputs")
    if not isinstance(inputs, list) or not inputs or random.random() < 0.1:
        body[str(random.choice(["inputs", "outputs", "id", "parameters", "other"]))] = _any(random)
        return
    tensor = inputs[random.integers(len(inputs))]
    if not isinstance(tensor, dict) or random.random() < 0.1:
        inputs[random.integers(len(inputs))] = _any(random)
        return
    match random.integers(8):
        case 0:
            tensor.pop(str(random.choice(["name", "shape", "datatype", "data"])), None)
        case 1:
            tensor["shape"] = [_pick(_DIMS, random) for _ in range(random.integers(4))]
        case 2:
            tensor["datatype"] = _pick(_TYPES, random)
        case 3:
            tensor["data"] = [_pick(_NUMBERS, random) for _ in range(random.integers(6))]
        case 4:
            inputs.append(dict(tensor))
        case 5:
            inputs.remove(tensor)
        case 6:
            tensor["parameters"] = {"binary_data_size": _pick(_NUMBERS, random)}
        case _:
            tensor[str(random.choice(["name", "shape", "datatype", "data"]))] = _any(random)


def grpc_messages(count: int, seed: int) -> Iterator[bytes]:
    """Serialised ModelInferRequests."""
    random = np.random.default_rng(seed)
    arrays = rank_inputs(ITEMS[:5], user_id=USERS[7])
    for _ in range(count):
        request = pb.ModelInferRequest(model_name="rank")
        broken = random.choice(list(arrays), int(random.integers(1, 3)))
        for name, array in arrays.items():
            tensor = request.inputs.add(name=name, datatype=DATATYPES[array.dtype.name], shape=list(array.shape))
            raw = array.tobytes() if array.dtype != object else len(array[0, 0]).to_bytes(4, "little") + array[0, 0]
            request.raw_input_contents.append(raw)
            match random.integers(7) if name in broken else None:
                case 0:
                    tensor.shape[:] = [int(_pick(_DIMS, random)) for _ in range(random.integers(4))]
                case 1:
                    tensor.datatype = str(_pick(_TYPES, random))
                case 2:
                    request.raw_input_contents[-1] = random.bytes(int(random.integers(64)))
                case 3:
                    request.raw_input_contents.pop()
                case 4:
                    tensor.contents.int64_contents.extend([1, 2, 3])
                case 5:
                    tensor.name = str(_pick(("", "no_such_input", "user_id", "\u0000"), random))
                case 6:
                    tensor.parameters["shared_memory_region"].string_param = "nowhere"
        message = request.SerializeToString()
        yield _tear(message, random) if random.random() < 0.2 else message


def _tear(data: bytes, random: np.random.Generator) -> bytes:
    """Cut off, or with some bytes changed."""
    if random.random() < 0.5:
        return data[: random.integers(len(data))]
    changed = bytearray(data)
    for _ in range(int(random.integers(1, 8))):
        changed[random.integers(len(changed))] = random.integers(256)
    return bytes(changed)


def _pick(values: tuple[Any, ...], random: np.random.Generator) -> Any:
    return values[random.integers(len(values))]


def _any(random: np.random.Generator, depth: int = 0) -> Any:
    match random.integers(4 if depth < 3 else 2):
        case 2:
            return [_any(random, depth + 1) for _ in range(random.integers(4))]
        case 3:
            return {str(_pick(("name", "data", "x"), random)): _any(random, depth + 1)}
        case _:
            return _pick(_NUMBERS, random)
