"""xxh64 of int64 values, vectorised: the same numbers as `xxhash.xxh64_intdigest(value.tobytes())`, without a loop.

Follows the xxHash specification (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, "XXH64 algorithm")
for an input of exactly eight little-endian bytes and seed 0: no stripe, one eight-byte lane, the final avalanche.
"""

import numpy as np
from numpy.typing import NDArray

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_SEED_AND_LENGTH = np.uint64(int(_PRIME_5) + 8)

_27, _29, _31, _32, _33, _37 = (np.uint64(n) for n in (27, 29, 31, 32, 33, 37))


def xxh64_int64(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The hash of every value, in the shape of `values`.

    >>> xxh64_int64(np.array([0, 42]))
    array([ 3803688792395291579, 13066772586158965587], dtype=uint64)
    """
    # At least one axis: NumPy warns about the overflow that we want when an operand is a scalar.
    lane = np.ascontiguousarray(values, dtype=np.int64).reshape(-1).view(np.uint64)
    h = lane * _PRIME_2
    h = ((h << _31) | (h >> _33)) * _PRIME_1
    h ^= _SEED_AND_LENGTH
    h = ((h << _27) | (h >> _37)) * _PRIME_1
    h += _PRIME_4
    h ^= h >> _33
    h *= _PRIME_2
    h ^= h >> _29
    h *= _PRIME_3
    h ^= h >> _32
    return h.reshape(np.shape(values))
