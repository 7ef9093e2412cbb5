"""The compiled module checks every part for itself: wrong parts raise, wrong bytes stay within the buffers.

scripts/sanitize_kernels.sh runs these tests under the address and undefined-behaviour sanitizers.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_ads.compression.packed_file import PackedFile, PackedFileError, read_packed_file, write_packed_file
from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern, Values, tile_bytes
from triton_ads.compression.quantised import round_to_nearest
from triton_ads.kernels import PackedProduct, _native, usable_paths


def parts(**changed: Any) -> dict[str, Any]:
    sizes = np.where(np.arange(50) % 3, 64, 128).astype(np.uint16)
    packed = pack(round_to_nearest(np.ones((50, 100)), Pattern.TWO_OF_FOUR, sizes))
    good = {
        "pattern": "2:4",
        "values": "int4",
        "rows": 50,
        "columns": 100,
        "groups": packed.group_size_T,
        "row_order": packed.row_order,
        "tiles": packed.tiles,
    }
    return good | changed


def changed_order(place: int, value: int) -> Any:
    order = parts()["row_order"].copy()
    order[place] = value
    return order


def test_good_parts_are_taken() -> None:
    matrix = _native.Matrix(**parts())
    assert (matrix.rows, matrix.columns) == (50, 100)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pattern": "3:4"}, "3:4"),
        ({"values": "fp8"}, "fp8"),
        ({"rows": 0}, "rows is 0"),
        ({"rows": 1 << 25}, "rows is"),
        ({"rows": -1}, "rows is -1"),
        ({"rows": 500}, "500 rows need 16 to 20"),
        ({"columns": 0}, "columns is 0"),
        ({"columns": 1 << 24}, "needs"),
        ({"columns": 1 << 40}, "columns is"),
        ({"groups": np.array([64, 128, 7], np.uint16)}, "group size 7"),
        ({"groups": np.zeros(3, np.uint16)}, "group size 0"),
        ({"values": "bf16"}, "group size"),
        ({"groups": np.array([], np.uint16)}, "0 tiles"),
        ({"tiles": np.zeros(5, np.uint8)}, "the tiles have 5 bytes"),
        ({"row_order": np.zeros(3, np.int32)}, "row_order has 3 entries"),
        ({"row_order": changed_order(0, 50)}, "row_order holds 50"),
        ({"row_order": changed_order(0, -2)}, "row_order holds -2"),
        ({"row_order": changed_order(0, 4)}, "row 4 twice"),
        ({"row_order": changed_order(0, -1)}, "49 of 50 rows"),
        ({"row_order": None}, "50 rows need 2 to 2"),
        ({"pattern": "1:4", "groups": np.full(3, 32, np.uint16)}, "group size 32"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _native.Matrix(**parts(**changed))


@settings(max_examples=150)
@given(
    pattern=st.sampled_from(list(Pattern)),
    values=st.sampled_from(list(Values)),
    rows=st.integers(1, 70),
    columns=st.integers(1, 400),
    count=st.integers(1, 9),
    seed=st.integers(0, 2**32),
)
def test_any_bytes_multiply_without_harm(
    pattern: Pattern, values: Values, rows: int, columns: int, count: int, seed: int
) -> None:
    """Random tiles: any indices, any codes, scales of any bits (NaN, infinity). No crash, and paths agree on finite."""
    rng = np.random.default_rng(seed)
    allowed = pattern.group_sizes if values is Values.INT4 else (0,)
    groups = rng.choice(allowed, -(-rows // 32)).astype(np.uint16)
    size = sum(tile_bytes(pattern, values, columns, group) for group in groups.tolist())
    tiles = rng.integers(0, 256, size).astype(np.uint8)
    matrix = _native.Matrix(pattern.value, values.value, rows, columns, groups, None, tiles)
    x = rng.standard_normal((count, columns), dtype=np.float32)
    for path in usable_paths():
        for bits in (16, 8):
            y = np.zeros((count, rows), np.float32)
            _native.multiply(matrix, x, y, bits, 2, path)


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_file_is_refused_or_multiplies_without_harm(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """From the file to the product, with the digest left unchecked and some bytes changed."""
    path = tmp_path_factory.mktemp("damaged") / "file"
    sizes = np.where(np.arange(50) % 3, 64, 128).astype(np.uint16)
    weight_NK = np.random.default_rng(0).standard_normal((50, 100))
    matrices = {str(pattern): pack(round_to_nearest(weight_NK, pattern, sizes)) for pattern in Pattern}
    write_packed_file(path, PackedFile(matrices))
    raw = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(raw[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, header - 1) | st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        found = read_packed_file(path, verify=False)
    except PackedFileError:
        return
    for matrix in found.matrices.values():
        PackedProduct(matrix)(np.ones((3, matrix.columns), np.float32))


@settings(max_examples=200)
@given(
    pattern=st.sampled_from(["dense", "2:4", "1:4", "", "x"]),
    values=st.sampled_from(["int4", "bf16", "x"]),
    rows=st.integers(-(2**40), 2**40) | st.integers(0, 100),
    columns=st.integers(-(2**40), 2**40) | st.integers(0, 100),
    groups=st.lists(st.sampled_from([0, 1, 31, 32, 64, 128, 256, 512, 65535]), max_size=6),
    order=st.none() | st.lists(st.integers(-3, 70), max_size=100),
    size=st.integers(0, 5000),
)
def test_any_parts_are_taken_or_refused(
    pattern: str, values: str, rows: int, columns: int, groups: list[int], order: list[int] | None, size: int
) -> None:
    try:
        matrix = _native.Matrix(
            pattern,
            values,
            rows,
            columns,
            np.array(groups, np.uint16),
            None if order is None else np.array(order, np.int32),
            np.zeros(size, np.uint8),
        )
    except ValueError:
        return
    y = np.zeros((1, rows), np.float32)
    _native.multiply(matrix, np.ones((1, columns), np.float32), y, 16, 1, "")
    assert not y.any()
