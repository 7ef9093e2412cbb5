"""The packed layout: literal bytes, exact round trips, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_ads.compression.bf16 import from_bf16, pack_bf16, to_bf16, unpack_bf16
from triton_ads.compression.packed_matrix import PackedMatrix, PackedMatrixError
from triton_ads.compression.packing import dequantised, pack, unpack
from triton_ads.compression.patterns import Pattern, Values, tile_bytes
from triton_ads.compression.quantised import QuantisedMatrix, largest_of_four, round_to_nearest


@st.composite
def quantised_matrices(draw: st.DrawFn) -> QuantisedMatrix:
    """Any valid matrix: shapes off the tile, empty quads, zero codes, mixed group sizes, odd scales."""
    pattern = draw(st.sampled_from(list(Pattern)))
    rows, columns = draw(st.integers(1, 80)), draw(st.integers(1, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes_NK = rng.integers(-8, 8, (rows, columns)).astype(np.int8)
    codes_NK *= largest_of_four(rng.random((rows, columns)), pattern) & (rng.random((rows, columns)) < 0.9)
    allowed = pattern.group_sizes if draw(st.booleans()) else (draw(st.sampled_from(pattern.group_sizes)),)
    group_size_N = rng.choice(allowed, rows).astype(np.uint16)
    scales_NB = np.zeros((rows, -(-columns // 32)), np.float16)
    for row, size in enumerate(group_size_N.tolist()):
        of_groups = rng.standard_normal(-(-columns // size)).astype(np.float16)
        scales_NB[row] = np.repeat(of_groups, size // 32)[: scales_NB.shape[1]]
    return QuantisedMatrix(pattern, codes_NK, scales_NB, group_size_N)


@settings(max_examples=150)
@given(quantised_matrices())
def test_round_trip_is_exact(matrix: QuantisedMatrix) -> None:
    packed = pack(matrix)
    back = unpack(packed)
    np.testing.assert_array_equal(back.codes_NK, matrix.codes_NK)
    np.testing.assert_array_equal(back.scales_NB.view(np.uint16), matrix.scales_NB.view(np.uint16))
    np.testing.assert_array_equal(back.group_size_N, matrix.group_size_N)
    np.testing.assert_array_equal(dequantised(packed), matrix.dequantised())
    assert packed.tiles.ctypes.data % 64 == 0


def plain_value(packed: PackedMatrix, row: int, column: int) -> float:
    """The weight of a row and column, read from the bytes one by one, as docs/packed_format.md says it."""
    slot = int(np.flatnonzero(packed.slot_rows() == row)[0])
    tile, half, lane = slot // 32, slot % 32 // 16, slot % 16
    start = sum(
        tile_bytes(packed.pattern, packed.values, packed.columns, size) for size in packed.group_size_T[:tile].tolist()
    )
    size = int(packed.group_size_T[tile])
    step_columns = {"dense": 16, "2:4": 32, "1:4": 64}[packed.pattern]
    half_bytes = 128 if packed.pattern == "dense" else 192
    group_bytes = size // step_columns * 2 * half_bytes + 64
    group, in_group = divmod(column, size)
    step, in_step = divmod(in_group, step_columns)
    base = start + group * group_bytes + step * 2 * half_bytes + half * half_bytes
    scale_at = start + (group + 1) * group_bytes - 64 + 2 * (16 * half + lane)
    scale = float(packed.tiles[scale_at : scale_at + 2].view("<f2")[0])
    kept = {"dense": 4, "2:4": 2, "1:4": 1}[packed.pattern]
    total = 0.0
    for nth in range(kept):
        unit, value = divmod(in_step // 4 * kept + nth, 4)
        byte = lane * 4 + (0, 2, 1, 3)[value]
        nibble = int(packed.tiles[base + unit // 2 * 64 + byte]) >> 4 * (unit % 2) & 15
        position = nth if kept == 4 else int(packed.tiles[base + 128 + byte]) >> 2 * unit & 3
        if position == column % 4:
            total += (nibble - 16 if nibble > 7 else nibble) * scale
    return total


@pytest.mark.parametrize("pattern", list(Pattern))
def test_bytes_stand_where_the_format_says(pattern: Pattern) -> None:
    """Every weight of a matrix with mixed group sizes, read with scalar arithmetic from the documented places."""
    rng = np.random.default_rng(1)
    sizes = rng.choice(pattern.group_sizes, 40).astype(np.uint16)
    matrix = round_to_nearest(rng.standard_normal((40, 330)), pattern, sizes)
    packed = pack(matrix)
    wanted = matrix.dequantised()
    for row, column in zip(rng.integers(0, 40, 700), rng.integers(0, 330, 700), strict=True):
        assert plain_value(packed, row, column) == wanted[row, column]


def test_literal_bytes_of_a_two_of_four_step() -> None:
    """One row, 8 columns: quad 0 keeps columns 1 and 3, quad 1 keeps 0 and 2; scale 0.5."""
    codes_NK = np.array([[0, 3, 0, -1, 7, 0, -8, 0]], np.int8)
    matrix = QuantisedMatrix(Pattern.TWO_OF_FOUR, codes_NK, np.full((1, 1), 0.5, np.float16), np.full(1, 32, np.uint16))
    tiles = pack(matrix).tiles
    assert tiles.size == 2 * 192 + 64
    # Kept values 3, -1, 7, -8 in lane order 0, 2, 1, 3, low nibbles (unit 0); -1 is 15, -8 is 8.
    assert tiles[:4].tolist() == [3, 7, 15, 8]
    # Their positions 1, 3, 0, 2 in lane order; units 1 to 3 hold nothing and store columns 0 and 1: bits 00, 01.
    nothing = [0b00000000, 0b00000000, 0b01010100, 0b01010100]
    assert tiles[128:132].tolist() == [1 | nothing[0], 0 | nothing[1], 3 | nothing[2], 2 | nothing[3]]
    assert tiles[-64:-62].tolist() == [0x00, 0x38]  # 0.5 in float16


@settings(max_examples=60)
@given(st.sampled_from(list(Pattern)), st.integers(1, 70), st.integers(1, 200), st.integers(0, 2**32))
def test_bf16_round_trip_is_exact(pattern: Pattern, rows: int, columns: int, seed: int) -> None:
    weight_NK = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    weight_NK = np.where(largest_of_four(np.abs(weight_NK), pattern), weight_NK, 0)
    packed = pack_bf16(weight_NK, pattern)
    np.testing.assert_array_equal(unpack_bf16(packed), from_bf16(to_bf16(weight_NK)))
    assert packed.values is Values.BF16


def test_bf16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20], np.float32)
    assert from_bf16(to_bf16(values)).tolist() == [1.0, 1.0, 1 + 2**-6, 1 + 2**-7]


@pytest.mark.parametrize(("pattern", "bits"), [("dense", 4.125), ("2:4", 3.125), ("1:4", 1.625)])
def test_bits_per_weight(pattern: str, bits: float) -> None:
    packed = pack(round_to_nearest(np.ones((64, 256)), Pattern(pattern), 128))
    assert packed.tiles.nbytes * 8 / (64 * 256) == bits


def test_round_to_nearest_literal() -> None:
    """2:4 keeps -7 and 3 of the first quad; scale 7 / 7 = 1. A tie keeps the left column."""
    matrix = round_to_nearest(np.array([[1.0, -7.0, 3.4, 2.0, 5.0, 5.0, 5.0, 5.0]]), Pattern.TWO_OF_FOUR, 32)
    assert matrix.codes_NK.tolist() == [[0, -7, 3, 0, 5, 5, 0, 0]]
    assert matrix.scales_NB.tolist() == [[1.0]]


def test_scale_is_of_the_whole_group_in_rounding() -> None:
    weight_NK = np.zeros((1, 128))
    weight_NK[0, 100] = 14.0
    weight_NK[0, 0] = 4.0
    matrix = round_to_nearest(weight_NK, Pattern.DENSE, 128)
    assert matrix.scales_NB.tolist() == [[2.0] * 4]
    assert (matrix.codes_NK[0, 0], matrix.codes_NK[0, 100]) == (2, 7)


def invalid(**changed: object) -> dict[str, object]:
    good: dict[str, object] = {
        "pattern": Pattern.TWO_OF_FOUR,
        "codes_NK": np.zeros((2, 64), np.int8),
        "scales_NB": np.ones((2, 2), np.float16),
        "group_size_N": np.full(2, 64, np.uint16),
    }
    return good | changed


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"codes_NK": np.full((2, 64), 9, np.int8)}, "codes span 9 to 9"),
        ({"codes_NK": np.ones((2, 64), np.int8)}, "row 0, columns 0 to 3 hold 4 values; 2:4 keeps 2"),
        ({"codes_NK": np.zeros((0, 64), np.int8)}, "0 x 64"),
        ({"scales_NB": np.ones((2, 3), np.float16)}, r"need \(2, 2\)"),
        ({"scales_NB": np.array([[1, 2], [1, 1]], np.float16)}, "differs within a group"),
        ({"scales_NB": np.full((2, 2), np.inf, np.float16)}, "not finite"),
        ({"group_size_N": np.full(2, 48, np.uint16)}, r"group sizes \[48\]"),
        ({"pattern": Pattern.ONE_OF_FOUR, "group_size_N": np.full(2, 32, np.uint16)}, "1:4 allows"),
    ],
)
def test_invalid_quantised_matrices_are_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        QuantisedMatrix(**invalid(**changed))  # type: ignore[arg-type]


def packed_parts(**changed: object) -> dict[str, object]:
    packed = pack(round_to_nearest(np.ones((40, 64)), Pattern.TWO_OF_FOUR, 64))
    return {name: getattr(packed, name) for name in packed.__dataclass_fields__} | changed


def swapped(order: NDArray[np.int32]) -> NDArray[np.int32]:
    order[0] = order[1]
    return order


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"rows": 65}, "65 rows need 3 to 3"),
        ({"columns": 65}, "needs 3328 bytes"),
        ({"group_size_T": np.full(2, 0, np.uint16)}, r"group sizes \[0\]"),
        ({"group_size_T": np.full(2, 64, np.int16)}, "int16"),
        ({"tiles": np.zeros(10, np.uint8)}, "needs 1664 bytes"),
        ({"row_order": np.arange(64, dtype=np.int32)}, "each of 40 rows once"),
        ({"row_order": swapped(np.r_[np.arange(40), np.full(24, -1)].astype(np.int32))}, "each of 40 rows once"),
        ({"row_order": np.arange(40, dtype=np.int32)}, "int32 of 32 x 2"),
    ],
)
def test_invalid_packed_matrices_are_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(PackedMatrixError, match=said):
        PackedMatrix(**packed_parts(**changed))  # type: ignore[arg-type]


def test_weights_that_are_not_finite_are_refused() -> None:
    weight_NK = np.full((1, 4), np.nan)
    with pytest.raises(ValueError, match="not finite"):
        round_to_nearest(weight_NK, Pattern.DENSE)
    with pytest.raises(ValueError, match="not finite"):
        pack_bf16(weight_NK, Pattern.DENSE)
    with pytest.raises(ValueError, match="float16 scale allows"):
        round_to_nearest(np.full((1, 4), 1e6), Pattern.DENSE)
