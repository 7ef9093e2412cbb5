"""Tensors of a safetensors file as float32, one at a time, from a memory map. NumPy has no BF16, which most checkpoints
use, so this reads the file itself: eight bytes with the header's length, a JSON header, the data."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.bf16 import from_bf16
from triton_ads.compression.checkpoint_error import CheckpointError

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "F64": np.dtype("<f8"),
}
#: The limit that the safetensors library sets as well.
_HEADER_MAX: Final = 100_000_000


class SafetensorsReader:
    """Raises CheckpointError for a file that is cut or damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file():
            raise CheckpointError(f"{path.parent}: {path.name} is missing")
        size = path.stat().st_size
        if size < 8:
            raise CheckpointError(f"{path}: {size} bytes; a safetensors file has at least 8")
        mapped = np.memmap(path, np.uint8, mode="r")
        length = int.from_bytes(mapped[:8].tobytes(), "little")
        if length > min(_HEADER_MAX, size - 8):
            raise CheckpointError(
                f"{path}: header of {length} bytes; the file allows {min(_HEADER_MAX, size - 8)}: it was changed or cut"
            )
        try:
            header = json.loads(mapped[8 : 8 + length].tobytes())
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path}: the header is no JSON: {error}") from error
        if not isinstance(header, dict):
            raise CheckpointError(f"{path}: the header is a JSON {type(header).__name__}; an object is needed")
        header.pop("__metadata__", None)
        self._header: dict[str, Any] = header
        self._data = mapped[8 + length :]
        self.names = list(header)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """One tensor, float32 of its own shape."""
        entry = self._header[name]
        try:
            kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if not all(type(one) is int and 0 <= one < 2**48 for one in (*shape, start, end)):
                raise ValueError(f"{shape} at {start} to {end}")
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{self._path}: {name} has no valid dtype, shape and data_offsets: {error}"
            ) from error
        if kind not in _DTYPES:
            raise CheckpointError(f"{self._path}: {name} is {kind}; {sorted(_DTYPES)} are allowed")
        dtype, count = _DTYPES[kind], 1
        for side in shape:
            count *= side
        if not start <= end <= self._data.size or end - start != count * dtype.itemsize:
            raise CheckpointError(
                f"{self._path}: {name} of {shape} {kind} lies at {start} to {end} of {self._data.size} bytes: "
                "the file was changed or cut"
            )
        raw = np.frombuffer(self._data[start:end].tobytes(), dtype).reshape(shape)
        return from_bf16(raw) if kind == "BF16" else raw.astype(np.float32)
