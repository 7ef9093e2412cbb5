"""Random numbers that depend on what they are for, and on nothing else: not on order, chunks or the number of others.

A draw is the hash of (seed, purpose, who, which), so any part of a world can be made alone and is the same. The hash
is splitmix64's finaliser (Steele, Lea and Flood, OOPSLA 2014, figure 17), applied once for each of the four.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = (np.uint64(n) for n in (30, 27, 31, 11))


class Purpose(IntEnum):
    """What a draw decides. Numbers are part of the world: a changed one is another world for the same seed."""

    ITEM_TOPIC = 1
    ITEM_ADVERTISER = 2
    ITEM_FORMAT = 3
    ITEM_QUALITY = 4
    ADVERTISER_QUALITY = 5
    USER_MEMBER = 6
    USER_AGE = 7
    USER_WEIGHT = 8
    USER_ARRIVAL = 9
    TIME = 10
    PLACEMENT = 11
    REPEAT = 12
    REPEATED = 13
    ITEM = 14
    INTEREST = 15
    CVR = 16
    DCVR = 17
    CLICK = 18


def uniform(seed: int, purpose: Purpose, who: NDArray[np.int64], which: NDArray[np.int64] | int = 0) -> NDArray:
    """float64 in [0, 1), of the shape of `who`; `who` and `which` are not negative."""
    state = _mix(np.full(np.shape(who), seed, dtype=np.uint64))
    for part in (int(purpose), who, which):
        state = _mix(state ^ np.asarray(part, dtype=np.uint64))
    return (state >> _11).astype(np.float64) * 2.0**-53


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value = value + _GAMMA
    value = (value ^ (value >> _30)) * _MIX_1
    value = (value ^ (value >> _27)) * _MIX_2
    return value ^ (value >> _31)
