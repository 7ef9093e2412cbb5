"""Packed matrices with 16-bit values: N:M sparsity without quantisation, and the dense baseline beside it.

A step of a half holds eight planes of 64 bytes (lane = row, two kept values in its two 16-bit words), then the same
index plane as INT4. There are no groups and no scales.

Legend: N rows, K columns, Q quads, V kept values of a row; T tiles, S steps, H 2 halves.
"""

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.lanes import (
    LANES,
    aligned_bytes,
    by_lane,
    from_lanes,
    gather_kept,
    index_lanes,
    index_plane,
    scatter_kept,
)
from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.patterns import QUAD, STEP_VALUES, TILE_ROWS, Pattern, Values, step_bytes, tile_bytes
from triton_ads.compression.quantised import pad_columns

#: Tiles packed at once, so that the intermediate arrays stay small beside the matrix.
_CHUNK = 64


def to_bf16(weight_NK: NDArray[np.floating]) -> NDArray[np.uint16]:
    """The upper halves of float32 values, rounded to nearest even: uint16 of the same shape."""
    bits = weight_NK.astype(np.float32).view(np.uint32)
    if not np.isfinite(weight_NK).all():
        raise ValueError("weight_NK holds a value that is not finite")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """BF16 bits as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def pack_bf16(weight_NK: NDArray[np.floating], pattern: Pattern) -> PackedMatrix:
    """Pack 16-bit values: the rows of the ablation without quantisation. Pruned weights are exactly 0.

    A step holds eight planes of 64 bytes (lane = row, two kept values in its two 16-bit words) and the index plane.
    """
    rows, columns = weight_NK.shape
    bits_NK = pad_columns(to_bf16(weight_NK), pattern.step_columns)
    bits_NK[bits_NK == 0x8000] = 0  # A negative zero is a zero: it needs no slot.
    kept_NQ = np.count_nonzero(bits_NK.reshape(rows, -1, QUAD), axis=2)
    if kept_NQ.max() > pattern.kept:
        raise ValueError(f"a quad holds {kept_NQ.max()} values; {pattern} keeps {pattern.kept}")
    bits_NK = np.pad(bits_NK, ((0, -rows % TILE_ROWS), (0, 0)))
    tiles, steps = bits_NK.shape[0] // TILE_ROWS, bits_NK.shape[1] // pattern.step_columns
    stream = aligned_bytes(tiles * tile_bytes(pattern, Values.BF16, columns, 0))
    stream_TSH = stream.reshape(tiles, steps, 2, step_bytes(pattern, Values.BF16) // 2)
    for first in range(0, tiles, _CHUNK):
        part = bits_NK[first * TILE_ROWS : (first + _CHUNK) * TILE_ROWS]
        kept_NV, positions_NV = gather_kept(part, pattern)
        pairs = kept_NV.reshape(-1, 2, LANES, steps, STEP_VALUES // 2, 2).transpose(0, 3, 1, 4, 2, 5).astype("<u2")
        planes_TSH = np.ascontiguousarray(pairs).view(np.uint8).reshape(*pairs.shape[:3], -1)
        stream_TSH[first : first + _CHUNK, :, :, : planes_TSH.shape[3]] = planes_TSH
        if pattern.sparse:
            index_TSH = index_plane(by_lane(positions_NV, 1))[:, 0]
            stream_TSH[first : first + _CHUNK, :, :, planes_TSH.shape[3] :] = index_TSH
    return PackedMatrix(pattern, Values.BF16, rows, columns, np.zeros(tiles, np.uint16), None, stream)


def unpack_bf16(packed: PackedMatrix) -> NDArray[np.float32]:
    """Float32 [N, K] of a packed BF16 matrix."""
    if packed.values is not Values.BF16:
        raise ValueError(f"unpack_bf16 takes bf16 values, these are {packed.values}; see unpack")
    tiles = packed.group_size_T.size
    half = step_bytes(packed.pattern, Values.BF16) // 2
    stream_TSH = packed.tiles.reshape(tiles, -1, 2, half)
    value_bytes = Values.BF16.step_bytes // 2
    pairs = np.ascontiguousarray(stream_TSH[..., :value_bytes]).view("<u2")
    pairs_TSH = pairs.reshape(*stream_TSH.shape[:3], STEP_VALUES // 2, LANES, 2)
    kept_NV = pairs_TSH.transpose(0, 2, 4, 1, 3, 5).reshape(tiles * TILE_ROWS, -1)
    positions_NV = None
    if packed.pattern.sparse:
        positions_NV = from_lanes(index_lanes(stream_TSH[:, None, :, :, value_bytes:]))
    bits_NK = scatter_kept(kept_NV.astype(np.uint16), positions_NV, packed.pattern)
    weight_NK = np.zeros((packed.rows, packed.columns), np.float32)
    order = packed.slot_rows()
    weight_NK[order[order >= 0]] = from_bf16(bits_NK[order >= 0, : packed.columns])
    return weight_NK
