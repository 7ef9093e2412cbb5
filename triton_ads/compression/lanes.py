"""Lanes: where the kept values of a row and their 2-bit positions stand in a tile.

Kept values are counted per row from the left, in units of four. In a lane (the 32 bits of one row) byte j holds kept
value [0, 2, 1, 3][j] of a unit, so that the same bytes serve as four int8 (bytes in turn) and, seen as two 16-bit
words, as two pairs of neighbours (the low bytes are values 0 and 1, the high bytes 2 and 3).

Legend: N rows, K columns, Q quads, V kept values of a row; T tiles, H 2 halves, L 16 lanes, G groups, S steps of a
group, U 4 units of a step, J 4 bytes of a lane.
"""

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.patterns import QUAD, TILE_ROWS, Pattern

Scalar = TypeVar("Scalar", bound=np.generic)

#: Byte j of a lane holds value LANE_ORDER[j] of its unit. It is its own inverse.
LANE_ORDER: Final = (0, 2, 1, 3)
LANES: Final = TILE_ROWS // 2
#: The kernels load 64 bytes at a time; a stream that starts on a cache line never splits one.
ALIGNMENT: Final = 64


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Zeroed uint8 [size] that starts on a cache line."""
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def kept_positions(pattern: Pattern) -> NDArray[np.uint8]:
    """For each set of non-zero columns of a quad (4 bits), the columns that are stored: uint8 [16, kept].

    A quad with fewer non-zeros than the pattern keeps stores its leftmost zeros as well, so that packing is unique.
    """
    table = np.zeros((16, pattern.kept), np.uint8)
    for bits in range(16):
        used = [column for column in range(QUAD) if bits >> column & 1]
        free = [column for column in range(QUAD) if not bits >> column & 1]
        table[bits] = sorted((used + free)[: pattern.kept])
    return table


def gather_kept(matrix_NK: NDArray[Scalar], pattern: Pattern) -> tuple[NDArray[Scalar], NDArray[np.uint8]]:
    """Kept values and their 2-bit positions, both [N, V]. K must be a multiple of four."""
    rows = matrix_NK.shape[0]
    quads_NQ4 = matrix_NK.reshape(rows, -1, QUAD)
    bits_NQ = (quads_NQ4 != 0) @ np.array([1, 2, 4, 8], np.uint8)
    positions_NQV = kept_positions(pattern)[bits_NQ]
    kept_NQV = np.take_along_axis(quads_NQ4, positions_NQV.astype(np.intp), axis=2)
    return kept_NQV.reshape(rows, -1), positions_NQV.reshape(rows, -1)


def by_lane(kept_NV: NDArray[Scalar], groups: int) -> NDArray[Scalar]:
    """[N, V] as [T, G, S, H, L, U, J], bytes of a lane in lane order."""
    tiles = kept_NV.shape[0] // TILE_ROWS
    by_row = kept_NV.reshape(tiles, 2, LANES, groups, -1, QUAD, QUAD)
    return by_row.transpose(0, 3, 4, 1, 2, 5, 6)[..., list(LANE_ORDER)]


def from_lanes(lanes_TGSHLUJ: NDArray[Scalar]) -> NDArray[Scalar]:
    """The inverse of `by_lane`: [N, V]."""
    by_row = lanes_TGSHLUJ[..., list(LANE_ORDER)].transpose(0, 3, 4, 1, 2, 5, 6)
    return by_row.reshape(by_row.shape[0] * TILE_ROWS, -1)


def index_plane(lanes_TGSHLUJ: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """2-bit indices as bytes [T, G, S, H, 64]: unit u of byte j in bits 2u and 2u + 1."""
    shifted = lanes_TGSHLUJ << np.array([0, 2, 4, 6], np.uint8)[:, None]
    return np.bitwise_or.reduce(shifted, axis=5).reshape(*lanes_TGSHLUJ.shape[:4], -1)


def index_lanes(plane_TGSH64: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The inverse of `index_plane`."""
    bytes_TGSHLJ = plane_TGSH64.reshape(*plane_TGSH64.shape[:4], LANES, QUAD)
    return (bytes_TGSHLJ[..., None, :] >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3).astype(np.uint8)


def scatter_kept(kept_NV: NDArray[Scalar], positions_NV: NDArray[np.uint8] | None, pattern: Pattern) -> NDArray[Scalar]:
    """The inverse of `gather_kept`: [N, K]."""
    if positions_NV is None:
        return kept_NV
    rows = kept_NV.shape[0]
    kept_NQV = kept_NV.reshape(rows, -1, pattern.kept)
    quads_NQ4 = np.zeros((*kept_NQV.shape[:2], QUAD), kept_NV.dtype)
    np.put_along_axis(quads_NQ4, positions_NV.reshape(kept_NQV.shape).astype(np.intp), kept_NQV, axis=2)
    return quads_NQ4.reshape(rows, -1)
