"""Ids: the one way in which a raw id becomes a number, offline and online alike.

Every raw id is an int64. An integer is itself; a string is the signed xxh64 of its UTF-8 bytes. A row of a table
is 0 for PAD (no value), 1 for OOV (a value that the table does not know), and 2 or more for a real id.
"""

import numpy as np
import xxhash
from numpy.typing import NDArray

from triton_ads.features.xxh64 import xxh64_int64

PAD = 0
OOV = 1
FIRST_ROW = 2
#: The raw id that means "no value": it always becomes PAD.
MISSING = -1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def raw_id(value: int | str) -> int:
    """The int64 of a raw id.

    Raises:
        ValueError: an integer that is no int64.

    >>> raw_id(42), raw_id("engineer")
    (42, -4713007880655145680)
    """
    if isinstance(value, str):
        return int(np.uint64(xxhash.xxh64_intdigest(value.encode())).astype(np.int64))
    number = int(value)
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(f"id {number} found, an int64 allowed: {INT64_MIN} to {INT64_MAX}, or text that is no number")
    return number


def hashed_rows(raw: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Rows of a hashed table of `rows` real rows: `2 + xxh64(little-endian int64) mod rows`; MISSING is PAD."""
    raw = np.asarray(raw, dtype=np.int64)
    hashed = (xxh64_int64(raw) % np.uint64(rows)).astype(np.int64) + FIRST_ROW
    return np.where(raw == MISSING, PAD, hashed)
