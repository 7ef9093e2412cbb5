"""From row-major codes and scales to the tiles of the kernels and back, exactly.

A step of a tile holds 16 kept values of each of 32 rows, in two halves of 16 rows: two planes of 64 bytes with the
nibbles of four units (lanes.py), then one plane of 2-bit indices where the pattern is sparse. A group is its steps,
then 32 float16 scales; a tile is its groups. docs/packed_format.md draws it.

Legend: N rows, K columns, B blocks of 32 columns, V kept values of a row; T tiles, H 2 halves, L 16 lanes, G groups,
S steps of a group, U 4 units of a step, J 4 bytes of a lane.
"""

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.bf16 import unpack_bf16
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
from triton_ads.compression.patterns import QUAD, SCALE_BYTES, SCALE_COLUMNS, TILE_ROWS, Pattern, Values, tile_bytes
from triton_ads.compression.quantised import QuantisedMatrix, pad_columns

#: Tiles packed at once, so that the intermediate arrays stay small beside the matrix.
_CHUNK = 64


def _pack_tiles_int4(
    pattern: Pattern, codes_NK: NDArray[np.int8], scales_NG: NDArray[np.float16], group_size: int
) -> NDArray[np.uint8]:
    """Bytes [T, tile bytes] of rows that share a group size; N is a multiple of 32."""
    padded_NK = pad_columns(codes_NK, group_size)
    groups = padded_NK.shape[1] // group_size
    kept_NV, positions_NV = gather_kept(padded_NK, pattern)
    nibbles = by_lane((kept_NV & 15).astype(np.uint8), groups)
    # Units 0 and 1 share the bytes of the first plane, 2 and 3 those of the second: low nibble, high nibble.
    planes = nibbles[..., 0::2, :] | nibbles[..., 1::2, :] << 4
    planes_TGSH = planes.transpose(0, 1, 2, 3, 5, 4, 6).reshape(*planes.shape[:4], -1)
    if pattern.sparse:
        index_TGSH = index_plane(by_lane(positions_NV, groups))
        planes_TGSH = np.concatenate([planes_TGSH, index_TGSH], axis=-1)
    tiles = planes_TGSH.shape[0]
    values_TG = planes_TGSH.reshape(tiles, groups, -1)
    scales_TG = scales_NG.reshape(tiles, TILE_ROWS, groups).transpose(0, 2, 1).astype("<f2")
    scale_bytes_TG = np.ascontiguousarray(scales_TG).view(np.uint8).reshape(tiles, groups, SCALE_BYTES)
    return np.concatenate([values_TG, scale_bytes_TG], axis=2).reshape(tiles, -1)


def _unpack_tiles_int4(
    pattern: Pattern, tiles_TB: NDArray[np.uint8], columns: int, group_size: int
) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Codes [N, K] and scales [N, G] of tiles that share a group size."""
    tiles = tiles_TB.shape[0]
    groups = -(-columns // group_size)
    body_TG = tiles_TB.reshape(tiles, groups, -1)
    scales_TG = np.ascontiguousarray(body_TG[:, :, -SCALE_BYTES:]).view("<f2")
    scales_NG = scales_TG.transpose(0, 2, 1).reshape(tiles * TILE_ROWS, groups)
    steps = group_size // pattern.step_columns
    planes_TGSH = body_TG[:, :, :-SCALE_BYTES].reshape(tiles, groups, steps, 2, -1)
    planes = planes_TGSH[..., :128].reshape(tiles, groups, steps, 2, 2, LANES, QUAD).transpose(0, 1, 2, 3, 5, 4, 6)
    nibbles = np.stack([planes & 15, planes >> 4], axis=6).reshape(tiles, groups, steps, 2, LANES, QUAD, QUAD)
    codes_NV = ((from_lanes(nibbles) ^ 8).astype(np.int8) - 8).astype(np.int8)
    positions_NV = from_lanes(index_lanes(planes_TGSH[..., 128:])) if pattern.sparse else None
    return scatter_kept(codes_NV, positions_NV, pattern)[:, :columns], scales_NG.astype(np.float16)


def _row_order(group_size_N: NDArray[np.uint16]) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """The row in each row of the tiles, -1 in padding; and the size of each tile.

    Rows keep their order where every 32 neighbours share a size. Else they are sorted by size, each size padded to
    whole tiles.
    """
    rows_N = np.arange(group_size_N.size, dtype=np.int32)
    first_T = group_size_N[::TILE_ROWS]
    if np.array_equal(group_size_N, first_T[rows_N // TILE_ROWS]):
        return np.pad(rows_N, (0, -rows_N.size % TILE_ROWS), constant_values=-1), first_T.copy()
    order, sizes = [], []
    for size in np.unique(group_size_N).tolist():
        rows = np.flatnonzero(group_size_N == size).astype(np.int32)
        order.append(np.pad(rows, (0, -rows.size % TILE_ROWS), constant_values=-1))
        sizes.append(np.full(order[-1].size // TILE_ROWS, size, np.uint16))
    return np.concatenate(order), np.concatenate(sizes)


def pack(matrix: QuantisedMatrix) -> PackedMatrix:
    """Pack INT4 codes and scales. `unpack` gives back the same codes and scales, bit for bit."""
    row_order, group_size_T = _row_order(matrix.group_size_N)
    total = sum(tile_bytes(matrix.pattern, Values.INT4, matrix.columns, size) for size in group_size_T.tolist())
    stream, start, tile = aligned_bytes(total), 0, 0
    while tile < group_size_T.size:
        size = int(group_size_T[tile])
        others = np.flatnonzero(group_size_T[tile : tile + _CHUNK] != size)
        count = int(others[0]) if others.size else min(_CHUNK, group_size_T.size - tile)
        rows_N = row_order[tile * TILE_ROWS : (tile + count) * TILE_ROWS]
        # A row of padding repeats row 0 here and is blanked.
        real_N1 = (rows_N >= 0)[:, None]
        codes_NK = matrix.codes_NK[rows_N.clip(0)] * real_N1
        scales_NG = matrix.scales_NB[rows_N.clip(0), :: size // SCALE_COLUMNS] * real_N1
        packed = _pack_tiles_int4(matrix.pattern, codes_NK, scales_NG, size)
        stream[start : start + packed.size] = packed.ravel()
        start, tile = start + packed.size, tile + count
    natural = np.array_equal(row_order[: matrix.rows], np.arange(matrix.rows))
    return PackedMatrix(
        matrix.pattern, Values.INT4, matrix.rows, matrix.columns, group_size_T, None if natural else row_order, stream
    )


def unpack(packed: PackedMatrix) -> QuantisedMatrix:
    """The codes and scales of a packed INT4 matrix."""
    if packed.values is not Values.INT4:
        raise ValueError(f"unpack takes int4 values, these are {packed.values}; see unpack_bf16")
    blocks = -(-packed.columns // SCALE_COLUMNS)
    codes_NK = np.zeros((packed.rows, packed.columns), np.int8)
    scales_NB = np.zeros((packed.rows, blocks), np.float16)
    group_size_N = np.zeros(packed.rows, np.uint16)
    order = packed.slot_rows()
    start = 0
    for tile, size in enumerate(packed.group_size_T.tolist()):
        length = tile_bytes(packed.pattern, Values.INT4, packed.columns, size)
        tile_TB = packed.tiles[None, start : start + length]
        codes, scales_G = _unpack_tiles_int4(packed.pattern, tile_TB, packed.columns, size)
        rows = order[tile * TILE_ROWS : (tile + 1) * TILE_ROWS]
        real = rows >= 0
        codes_NK[rows[real]] = codes[real]
        scales_NB[rows[real]] = np.repeat(scales_G, size // SCALE_COLUMNS, axis=1)[real, :blocks]
        group_size_N[rows[real]] = size
        start += length
    return QuantisedMatrix(packed.pattern, codes_NK, scales_NB, group_size_N)


def dequantised(packed: PackedMatrix) -> NDArray[np.float32]:
    """Float32 [N, K]: the matrix that a kernel multiplies by, whatever the value kind."""
    return unpack(packed).dequantised() if packed.values is Values.INT4 else unpack_bf16(packed)
