"""The container: exact, aligned, readable by the safetensors library, and never misread when damaged."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from triton_ads.compression.bf16 import pack_bf16
from triton_ads.compression.packed_file import PackedFile, PackedFileError, read_packed_file, write_packed_file
from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import round_to_nearest


def content() -> PackedFile:
    rng = np.random.default_rng(0)
    mixed = np.where(np.arange(50) % 3, 64, 128).astype(np.uint16)
    matrices: dict[str, PackedMatrix] = {
        f"layer.{pattern}": pack(round_to_nearest(rng.standard_normal((50, 100)), pattern, mixed))
        for pattern in Pattern
    }
    matrices["half"] = pack_bf16(rng.standard_normal((5, 9)), Pattern.DENSE)
    return PackedFile(matrices, {"norm": rng.standard_normal(7).astype(np.float32)}, {"config": '{"digest":"x"}'})


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    write_packed_file(path, content())
    return path


def test_round_trip_is_exact_and_aligned(written: Path) -> None:
    wanted, found = content(), read_packed_file(written)
    assert set(found.matrices) == set(wanted.matrices)
    for name, matrix in wanted.matrices.items():
        back = found.matrices[name]
        assert (back.pattern, back.values, back.rows, back.columns) == (
            matrix.pattern,
            matrix.values,
            matrix.rows,
            matrix.columns,
        )
        np.testing.assert_array_equal(back.tiles, matrix.tiles)
        np.testing.assert_array_equal(back.group_size_T, matrix.group_size_T)
        np.testing.assert_array_equal(back.slot_rows(), matrix.slot_rows())
        assert back.tiles.ctypes.data % 64 == 0
        assert not back.tiles.flags.writeable
    np.testing.assert_array_equal(found.tensors["norm"], wanted.tensors["norm"])
    assert found.metadata == wanted.metadata
    assert set(found.tensors) == {"norm"}


def test_the_safetensors_library_reads_it(written: Path) -> None:
    found = read_packed_file(written)
    with safe_open(written, "numpy") as library:
        for name, matrix in found.matrices.items():
            np.testing.assert_array_equal(library.get_tensor(f"{name}.tiles"), matrix.tiles)
        np.testing.assert_array_equal(library.get_tensor("norm"), found.tensors["norm"])
        assert library.metadata()["format"] == "triton-ads.packed"


def test_writing_replaces_and_leaves_nothing_behind(written: Path) -> None:
    before = read_packed_file(written)
    write_packed_file(written, PackedFile({}, {"only": np.zeros(1, np.int64)}))
    assert set(read_packed_file(written).tensors) == {"only"}
    assert before.tensors["norm"].size == 7  # the old mapping still holds the old file
    assert [path.name for path in written.parent.iterdir()] == [written.name]


def test_names_of_the_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="format's own"):
        write_packed_file(path, PackedFile({}, {}, {"digest": "x"}))
    with pytest.raises(ValueError, match="name of a part"):
        write_packed_file(path, PackedFile(content().matrices, {"half.tiles": np.zeros(1, np.uint8)}))
    with pytest.raises(ValueError, match="float64"):
        write_packed_file(path, PackedFile({}, {"wide": np.zeros(1)}))
    assert not path.exists()


@settings(max_examples=200)
@given(st.data())
def test_a_flipped_bit_anywhere_is_an_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("flip") / "file"
    write_packed_file(path, content())
    raw = bytearray(path.read_bytes())
    # Half of the flips in the header, where a small change could mislead the most.
    header = 8 + int.from_bytes(raw[:8], "little")
    at = data.draw(st.integers(0, header - 1) | st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    with pytest.raises(PackedFileError):
        read_packed_file(path)


@settings(max_examples=80)
@given(st.data())
def test_a_truncated_file_is_an_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("cut") / "file"
    write_packed_file(path, content())
    raw = path.read_bytes()
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])
    with pytest.raises(PackedFileError):
        read_packed_file(path, verify=data.draw(st.booleans()))


def rewrite_header(path: Path, change: dict[str, object]) -> None:
    """Replace entries of the header (None removes), keeping the data."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    for key, value in change.items():
        place = header["__metadata__"] if key in header["__metadata__"] else header
        if value is None:
            del place[key]
        else:
            place[key] = value
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


U8 = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "2"}, "'2'"),
        ({"format": "other"}, "other"),
        ({"digest": None}, "digest"),
        ({"__metadata__": [1]}, "not an object of strings"),
        ({"norm": U8 | {"data_offsets": [0, 1 << 60]}}, "no size"),
        ({"norm": U8 | {"data_offsets": [-4, 0]}}, "-4"),
        ({"norm": U8 | {"data_offsets": [1 << 40, (1 << 40) + 4]}}, "bytes of data"),
        ({"norm": U8 | {"shape": [1 << 40, 1 << 40, 0]}}, "bytes of data"),
        ({"norm": U8 | {"shape": [True]}}, "no size"),
        ({"norm": U8 | {"dtype": "F64"}}, "dtype"),
        ({"norm": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}}, "not aligned"),
        ({"half.tiles": None}, "half"),
        ({"matrices": "[]"}, "object is needed"),
        ({"matrices": "[" * 100_000}, "no JSON"),
        ({"matrices": '{"a": 1, "a": 1}'}, "twice"),
        ({"matrices": '{"half": {"pattern": "3:4"}}'}, "3:4"),
        ({"matrices": '{"half": {"pattern": "dense", "values": "bf16", "rows": 5, "columns": 17}}'}, "needs 2048"),
        ({"matrices": '{"half": {"pattern": "dense", "values": "bf16", "rows": 5e9, "columns": 9}}'}, "no size"),
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_a_crafted_header_is_an_error(written: Path, change: dict[str, object], said: str, verify: bool) -> None:
    rewrite_header(written, change)
    # With the digest checked first, content errors surface as a changed file.
    with pytest.raises(PackedFileError, match=said if not verify else f"{said}|digest"):
        read_packed_file(written, verify=verify)


def test_a_header_longer_than_the_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for raw in (b"", b"1234567", b"\xff" * 8 + b"{}", b"\x02" + bytes(7) + b"{}"):
        path.write_bytes(raw)
        with pytest.raises(PackedFileError):
            read_packed_file(path)
