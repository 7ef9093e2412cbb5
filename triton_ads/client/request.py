"""A request as the tensors of docs/wire.md. Every input is always there, empty where nothing is given."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# N candidates, S sequences, F fields of a sequence. The first axis of every tensor is Triton's batch, always 1.

#: Triton's names of NumPy's types.
DATATYPES = {"int64": "INT64", "int32": "INT32", "float32": "FP32", "float64": "FP64", "object": "BYTES"}
NO_USER = -1
NO_DEADLINE = 0


def rank_inputs(
    candidates: ArrayLike,
    *,
    user_id: int = NO_USER,
    user_features: ArrayLike | None = None,
    user_dense: ArrayLike | None = None,
    sequences: Sequence[ArrayLike] | None = None,
    context_features: ArrayLike | None = None,
    context_dense: ArrayLike | None = None,
    item_features: ArrayLike | None = None,
    item_dense: ArrayLike | None = None,
    item_values: ArrayLike | None = None,
    deadline_us: int = NO_DEADLINE,
    tier: str = "",
) -> dict[str, NDArray[Any]]:
    """The inputs of the model `rank`; see RankClient.rank for the arguments.

    >>> inputs = rank_inputs([30, 10], user_id=42, sequences=[[[30, 1], [20, 1]], []])
    >>> inputs["candidates"].tolist(), inputs["sequence_lengths"].tolist(), inputs["sequences"].tolist()
    ([[30, 10]], [[2, 0]], [[30, 1, 20, 1]])
    >>> inputs["user_dense"].shape
    (1, 0)

    Raises:
        TypeError: ids that are not integers.
    """
    events = [ids_tensor(f"sequences[{i}]", sequence) for i, sequence in enumerate(sequences or ())]
    lengths = [len(np.asarray(sequence)) for sequence in sequences or ()]
    return {
        "user_id": ids_tensor("user_id", user_id),
        "user_features": ids_tensor("user_features", user_features),
        "user_dense": _floats(user_dense),
        "sequence_lengths": np.array([lengths], np.int32),
        "sequences": np.concatenate(events, axis=1) if events else ids_tensor("sequences", None),
        "context_features": ids_tensor("context_features", context_features),
        "context_dense": _floats(context_dense),
        "candidates": ids_tensor("candidates", candidates),
        "item_features": ids_tensor("item_features", item_features),
        "item_dense": _floats(item_dense),
        "item_values": _floats(item_values),
        "deadline_us": np.array([[deadline_us]], np.int64),
        "insisted_tier": np.array([[tier.encode()]], np.object_),
    }


def json_body(inputs: Mapping[str, NDArray[Any]]) -> str:
    """The body of an HTTP request without binary parts, as `curl -d` sends it; slower than what RankClient sends.

    >>> json_body({"user_id": np.array([[42]], np.int64)})
    '{"inputs": [{"name": "user_id", "datatype": "INT64", "shape": [1, 1], "data": [42]}]}'
    """

    def plain(value: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else value

    tensors = [
        {
            "name": name,
            "datatype": DATATYPES[array.dtype.name],
            "shape": list(array.shape),
            "data": [plain(value) for value in array.ravel().tolist()],
        }
        for name, array in inputs.items()
    ]
    return json.dumps({"inputs": tensors})


def deadline_after(milliseconds: float | None) -> int:
    """The absolute deadline, unix time in microseconds; NO_DEADLINE for None."""
    return NO_DEADLINE if milliseconds is None else time.time_ns() // 1000 + round(milliseconds * 1000)


def ids_tensor(name: str, values: ArrayLike | None) -> NDArray[np.int64]:
    """Raw ids, int64 [1, n]; none where nothing is given.

    Raises:
        TypeError: values that are not integers.
    """
    array = np.asarray([] if values is None else values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name}: ids are integers (a string is the xxh64 of its bytes), found {array.dtype}")
    return np.ascontiguousarray(array, np.int64).reshape(1, -1)


def _floats(values: ArrayLike | None) -> NDArray[np.float32]:
    return np.ascontiguousarray([] if values is None else values, np.float32).reshape(1, -1)
