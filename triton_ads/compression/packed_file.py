"""One file of packed matrices: a safetensors file that is checksummed and memory-mapped.

    8 bytes   length of the header, little-endian
    header    JSON: for each tensor its dtype, shape and place; `__metadata__` says what the tensors are
    data      the tensors, each at a multiple of 64 bytes from the start of the file

The matrix NAME is the tensors `NAME.tiles`, `NAME.group_sizes` and, where its rows are sorted, `NAME.row_order`. Any
other tensor is kept as it is (norms, embeddings). Any safetensors reader can open the file. This module has its own:
the library copies tensors into memory and does not align them.

`digest` in the metadata is xxh3-128 over the whole file with the digest's own 32 characters set to zeros, so that one
changed bit anywhere is found. A file must not be changed in place while it is mapped; `write_packed_file` replaces.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from triton_ads.compression.lanes import ALIGNMENT
from triton_ads.compression.packed_matrix import PackedMatrix, PackedMatrixError
from triton_ads.compression.patterns import Pattern, Values

FORMAT: Final = "triton-ads.packed"
VERSION: Final = "1"
#: The limit that the safetensors library sets as well.
HEADER_BYTES_MAX: Final = 100_000_000
_NO_DIGEST: Final = "0" * 32
_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
}
#: Tensors that only fill the space up to the next aligned one.
_PADDING: Final = ".padding."
_DTYPE_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}


class PackedFileError(ValueError):
    """A file that is no packed file of this version; the message says what was found and what is allowed."""


@dataclass(frozen=True)
class PackedFile:
    """What a packed file holds: matrices, other tensors, and strings about them."""

    matrices: Mapping[str, PackedMatrix]
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}))
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def write_packed_file(path: Path, content: PackedFile) -> None:
    """Write atomically: a reader sees the old file or the whole new one."""
    reserved = {"format", "version", "digest", "matrices"} & set(content.metadata)
    if reserved:
        raise ValueError(f"metadata uses {sorted(reserved)}; these names are the format's own")
    parts = _parts_of(content)
    metadata = {
        **content.metadata,
        "format": FORMAT,
        "version": VERSION,
        "digest": _NO_DIGEST,
        "matrices": json.dumps({name: _description(matrix) for name, matrix in content.matrices.items()}),
    }
    header = _header_of(parts, metadata)
    digest = xxhash.xxh3_128(header)
    for array in parts.values():
        digest.update(_padded_bytes(array))
    marked = header.replace(b'"digest":"' + _NO_DIGEST.encode(), b'"digest":"' + digest.hexdigest().encode(), 1)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(marked)
            for array in parts.values():
                file.write(_padded_bytes(array))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _padded_bytes(array: NDArray[Any]) -> bytes:
    raw = array.tobytes()
    return raw + b"\0" * (-len(raw) % ALIGNMENT)


def _parts_of(content: PackedFile) -> dict[str, NDArray[Any]]:
    parts: dict[str, NDArray[Any]] = {}
    for name, matrix in content.matrices.items():
        parts[f"{name}.tiles"] = matrix.tiles
        parts[f"{name}.group_sizes"] = matrix.group_size_T
        if matrix.row_order is not None:
            parts[f"{name}.row_order"] = matrix.row_order
    for name, array in content.tensors.items():
        if name in parts or name.startswith((_PADDING, "__metadata__")):
            raise ValueError(f"tensor {name!r} has the name of a part of a matrix, of padding or of the header")
        if array.dtype not in _DTYPE_NAMES:
            raise ValueError(f"tensor {name!r} is {array.dtype}; {sorted(map(str, _DTYPE_NAMES))} allowed")
        parts[name] = array
    return parts


def _description(matrix: PackedMatrix) -> dict[str, str | int]:
    return {"pattern": matrix.pattern, "values": matrix.values, "rows": matrix.rows, "columns": matrix.columns}


def _header_of(parts: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Length and JSON, padded with spaces to a multiple of 64 bytes; so are the tensors, with bytes of their own.

    safetensors allows no holes between tensors. The padding after a tensor is a tensor of its own, `.padding.N`.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for number, (name, array) in enumerate(parts.items()):
        end = offset + array.nbytes
        header[name] = {
            "dtype": _DTYPE_NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end + -end % ALIGNMENT
        if offset > end:
            header[f"{_PADDING}{number}"] = {"dtype": "U8", "shape": [offset - end], "data_offsets": [end, offset]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def read_packed_file(path: Path, verify: bool = True) -> PackedFile:
    """Map a packed file. Arrays are read-only views of the file; nothing is copied.

    `verify` reads the whole file once to check its digest. Without it the structure is still checked, and no content
    of the tiles can make a kernel read or write out of bounds.

    Raises PackedFileError for a file that is cut short, changed, of another format or of another version.
    """
    size = path.stat().st_size
    if size < 8:
        raise PackedFileError(f"{path}: {size} bytes; a packed file has at least 8")
    mapped = np.memmap(path, np.uint8, mode="r")
    length = int.from_bytes(mapped[:8].tobytes(), "little")
    if length > min(HEADER_BYTES_MAX, size - 8):
        raise PackedFileError(f"{path}: header of {length} bytes; the file allows {min(HEADER_BYTES_MAX, size - 8)}")
    raw_header = mapped[8 : 8 + length].tobytes()
    try:
        header = _parse_header(raw_header)
        metadata = header.pop("__metadata__")
        _check_version(metadata)
        if verify:
            _check_digest(mapped, length, metadata["digest"])
        arrays = _map_arrays(header, mapped[8 + length :])
        return _content_of(arrays, metadata)
    except (PackedFileError, PackedMatrixError) as error:
        raise PackedFileError(f"{path}: {error}") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise PackedFileError("the header names something twice")
    return found


def _parse_json(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise PackedFileError(f"{what} is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise PackedFileError(f"{what} is a JSON {type(parsed).__name__}; an object is needed")
    return parsed


def _parse_header(raw: bytes) -> dict[str, Any]:
    header = _parse_json(raw, "the header")
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise PackedFileError("__metadata__ is not an object of strings")
    return header


def _check_version(metadata: Mapping[str, str]) -> None:
    found = metadata.get("format"), metadata.get("version")
    if found != (FORMAT, VERSION):
        raise PackedFileError(f"format and version are {found}; {(FORMAT, VERSION)} is what this code reads")
    missing = {"digest", "matrices"} - set(metadata)
    if missing:
        raise PackedFileError(f"__metadata__ lacks {sorted(missing)}")


def _check_digest(mapped: NDArray[np.uint8], length: int, digest: str) -> None:
    head = mapped[: 8 + length].tobytes()
    blank = head.replace(b'"digest":"' + digest.encode(), b'"digest":"' + _NO_DIGEST.encode(), 1)
    found = xxhash.xxh3_128(blank)
    found.update(mapped[8 + length :].data)
    if found.hexdigest() != digest:
        raise PackedFileError(f"digest is {found.hexdigest()}, the header says {digest}: the file was changed or cut")


def _map_arrays(header: Mapping[str, Any], data: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    return {name: _map_array(name, entry, data) for name, entry in header.items()}


def _map_array(name: str, entry: Any, data: NDArray[np.uint8]) -> NDArray[Any]:
    """One tensor as a view of the data; every number of its entry is checked before it is used."""
    try:
        dtype = _DTYPES[entry["dtype"]]
        shape = [_natural(side) for side in entry["shape"]]
        start, end = (_natural(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise PackedFileError(f"tensor {name!r} has no valid dtype, shape and data_offsets: {error}") from error
    nbytes = dtype.itemsize
    for side in shape:
        nbytes *= side
    if not (start <= end <= data.size and end - start == nbytes and len(shape) <= 8):
        raise PackedFileError(f"tensor {name!r}: {shape} {dtype} at {start} to {end} of {data.size} bytes of data")
    if start % dtype.itemsize:
        raise PackedFileError(f"tensor {name!r} of {dtype} starts at byte {start}, which is not aligned")
    return data[start:end].view(dtype).reshape(shape)


def _natural(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**48:
        raise ValueError(f"{value!r} is no size")
    return value


def _content_of(arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> PackedFile:
    matrices = {}
    for name, entry in _parse_json(metadata["matrices"], "`matrices`").items():
        try:
            pattern, values = Pattern(entry["pattern"]), Values(entry["values"])
            rows, columns = _natural(entry["rows"]), _natural(entry["columns"])
            tiles, group_size_T = arrays.pop(f"{name}.tiles"), arrays.pop(f"{name}.group_sizes")
        except (KeyError, TypeError, ValueError) as error:
            raise PackedFileError(f"matrix {name!r} is not described: {error}") from error
        row_order = arrays.pop(f"{name}.row_order", None)
        try:
            matrices[name] = PackedMatrix(pattern, values, rows, columns, group_size_T, row_order, tiles)
        except PackedMatrixError as error:
            raise PackedMatrixError(f"matrix {name!r}: {error}") from error
    others = {name: array for name, array in arrays.items() if not name.startswith(_PADDING)}
    told = {name: text for name, text in metadata.items() if name not in ("format", "version", "digest", "matrices")}
    return PackedFile(MappingProxyType(matrices), MappingProxyType(others), MappingProxyType(told))
