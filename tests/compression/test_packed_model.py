"""Packed models: written, read and decoded alike; whatever else lies in the folder is refused, never run."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.random_llama import FORMATS, config_of, random_checkpoint, random_model
from triton_ads.compression.bf16 import pack_bf16
from triton_ads.compression.llama_config import HEAD
from triton_ads.compression.pack_model import LayerFormat, fewest_bytes, mixed, pack_matrix, pack_model, uniform
from triton_ads.compression.packed_file import PackedFile, PackedFileError, read_packed_file, write_packed_file
from triton_ads.compression.packed_model import (
    MODEL_FILE,
    TOKENIZER_FILE,
    PackedModelError,
    read_packed_model,
    write_packed_model,
)
from triton_ads.compression.packing import dequantised
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.serving.decoder import Decoder, DecoderError

MODEL = random_model(config_of(), lambda name: FORMATS[len(name) % len(FORMATS)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_packed_model(tmp_path / "model", MODEL)
    return tmp_path / "model"


def test_comes_back(folder: Path) -> None:
    found = read_packed_model(folder)
    assert (found.config, found.tokenizer) == (MODEL.config, MODEL.tokenizer)
    assert list(found.matrices) == list(MODEL.matrices)
    for name, matrix in MODEL.matrices.items():
        np.testing.assert_array_equal(found.matrices[name].tiles, matrix.tiles)
    np.testing.assert_array_equal(found.embeddings_VD, MODEL.embeddings_VD)
    tokens = list(range(20))
    np.testing.assert_array_equal(
        Decoder(found).sequence(20).extend(tokens, "all"), Decoder(MODEL).sequence(20).extend(tokens, "all")
    )


def test_matrices_stay_in_the_map(folder: Path) -> None:
    """Nothing is copied: a decoder outlives the model's Python object, on the mapped file."""
    model = read_packed_model(folder)
    assert not model.matrices[HEAD].tiles.flags.owndata
    assert not model.embeddings_VD.flags.owndata
    decoder = Decoder(model)
    del model
    (folder / MODEL_FILE).unlink()
    assert np.isfinite(decoder.sequence(4).extend([1, 2])).all()


@pytest.mark.parametrize("name", [MODEL_FILE, TOKENIZER_FILE])
def test_a_missing_file(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(name)):
        read_packed_model(folder)


def test_another_tokenizer(folder: Path) -> None:
    (folder / TOKENIZER_FILE).write_text(MODEL.tokenizer.replace("t0", "u0"))
    with pytest.raises(PackedModelError, match=r"tokenizer\.json has digest .*; the model was packed with"):
        read_packed_model(folder)


def rewritten(folder: Path, **changes: object) -> Path:
    """The model file with other parts: a whole packed file, but no such model."""
    content = read_packed_file(folder / MODEL_FILE)
    parts = {"matrices": dict(content.matrices), "tensors": dict(content.tensors), "metadata": dict(content.metadata)}
    for name, change in changes.items():
        parts[name].update(change)  # type: ignore[call-overload]
        parts[name] = {key: value for key, value in parts[name].items() if value is not None}
    copies = {name: np.array(array) for name, array in parts["tensors"].items()}
    write_packed_file(folder / MODEL_FILE, PackedFile(parts["matrices"], copies, parts["metadata"]))  # type: ignore[arg-type]
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metadata": {"model_version": "2"}}, "model_version is '2'; '1' is what this code reads"),
        ({"metadata": {"model": None}}, "the configuration is no JSON"),
        ({"metadata": {"model": json.dumps({"hidden": 3})}}, "the configuration does not hold exactly"),
        ({"metadata": {"tokenizer_digest": "0"}}, "the model was packed with 0"),
        ({"matrices": {HEAD: None}}, "of the matrices, ['lm_head'] are missing and [] are unknown"),
        (
            {"matrices": {"other": pack_bf16(np.ones((1, 1)), Pattern.DENSE)}},
            "[] are missing and ['other'] are unknown",
        ),
        ({"matrices": {HEAD: pack_bf16(np.ones((101, 47)), Pattern.DENSE)}}, "lm_head is (101, 47); the configuration"),
        ({"tensors": {"model.norm": np.ones(47, np.float32)}}, "model.norm is float32 (47,); float32 (48,) is needed"),
        ({"tensors": {"model.norm": np.ones(48, np.int32)}}, "model.norm is int32 (48,); float32 (48,) is needed"),
        ({"tensors": {"model.norm": None}}, "of the norms, ['model.norm'] are missing"),
        ({"tensors": {"model.embed_tokens": None}}, "model.embed_tokens is missing"),
        (
            {"tensors": {"rotary_frequencies": np.ones(3, np.float32)}},
            "rotary_frequencies is float32 (3,); float32 (4,)",
        ),
    ],
)
def test_whole_files_that_are_no_model(changes: dict[str, object], message: str, folder: Path) -> None:
    with pytest.raises(PackedModelError, match=re.escape(message)):
        read_packed_model(rewritten(folder, **changes))


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_file_is_refused(data: st.DataObject, folder: Path) -> None:
    write_packed_model(folder, MODEL)
    for name in (MODEL_FILE, TOKENIZER_FILE):
        raw = bytearray((folder / name).read_bytes())
        place = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[place] ^= data.draw(st.integers(1, 255))
        else:
            raw = raw[:place]
        (folder / name).write_bytes(raw)
        with pytest.raises((PackedModelError, PackedFileError)):
            read_packed_model(folder)
        write_packed_model(folder, MODEL)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_without_digests_nothing_breaks_either(data: st.DataObject, folder: Path) -> None:
    """Bytes of the header and of the data changed on purpose: refused, or decoded to some numbers."""
    write_packed_model(folder, MODEL)
    raw = bytearray((folder / MODEL_FILE).read_bytes())
    header = 8 + int.from_bytes(raw[:8], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, header - 1) | st.integers(header, len(raw) - 1))
        raw[place] = data.draw(st.integers(0, 255))
    (folder / MODEL_FILE).write_bytes(raw)
    try:
        decoder = Decoder(read_packed_model(folder, verify=False))
    except (PackedModelError, PackedFileError, DecoderError):
        return
    sequence = decoder.sequence(8, 4)
    sequence.extend([1, 2, 3])
    assert sequence.grow([4, 5], [-1, 0]).shape == (2, 101)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head_dim": 10}, "model.layers.0.self_attn.q_proj is (48, 48); the configuration asks for (60, 48)"),
        ({"layers": 1}, "are missing and ['model.layers.1.mlp.down_proj', 'model.layers.1.mlp.gate_proj'"),
        ({"vocabulary": 102}, "lm_head is (101, 48); the configuration asks for (102, 48)"),
        # Twice as many heads of half the width have the same matrices, but not the same frequencies.
        ({"heads": 12, "kv_heads": 4, "head_dim": 4}, "rotary_frequencies is float32 (4,); float32 (2,) is needed"),
    ],
)
def test_parts_of_another_configuration(changes: dict[str, int], message: str) -> None:
    with pytest.raises(PackedModelError, match=re.escape(message)):
        replace(MODEL, config=replace(MODEL.config, **changes))


def test_formats_of_a_mix() -> None:
    """Eight layers: two at each end are 2:4, four between are 1:4, the head is dense."""
    choose = mixed(8)
    patterns = [choose(f"model.layers.{layer}.mlp.up_proj").pattern for layer in range(8)]
    assert patterns == [Pattern.TWO_OF_FOUR] * 2 + [Pattern.ONE_OF_FOUR] * 4 + [Pattern.TWO_OF_FOUR] * 2
    assert choose(HEAD) == LayerFormat(Pattern.DENSE, Values.INT4)


@pytest.mark.parametrize("values", list(Values))
@pytest.mark.parametrize("pattern", list(Pattern))
def test_a_uniform_model(pattern: Pattern, values: Values) -> None:
    model = pack_model(random_checkpoint(config_of()), uniform(pattern, values))
    for name, matrix in model.matrices.items():
        assert (matrix.pattern, matrix.values) == (Pattern.DENSE if name == HEAD else pattern, values)


@pytest.mark.parametrize(
    ("columns", "pattern", "size"),
    [(576, Pattern.DENSE, 64), (1536, Pattern.DENSE, 128), (576, Pattern.ONE_OF_FOUR, 64), (32, Pattern.DENSE, 64)],
)
def test_group_size_with_the_fewest_bytes(columns: int, pattern: Pattern, size: int) -> None:
    """576 columns are nine groups of 64; in groups of 128 a tenth of the bytes would be padding."""
    assert fewest_bytes(columns, pattern) == size


def test_magnitude_pruning_keeps_the_largest() -> None:
    weight_NK = np.array([[3, -5, 1, 4, 0.5, 0.25, -2, 1]], np.float32)
    packed = pack_matrix(weight_NK, LayerFormat(Pattern.TWO_OF_FOUR, Values.BF16))
    np.testing.assert_array_equal(dequantised(packed), [[0, -5, 0, 4, 0, 0, -2, 1]])
    packed = pack_matrix(weight_NK, LayerFormat(Pattern.ONE_OF_FOUR, Values.INT4, 64))
    # The scale is 5 / 7 in float16; -2 becomes -3 of it.
    np.testing.assert_allclose(dequantised(packed), [[0, -5, 0, 0, 0, 0, -2.14286, 0]], rtol=1e-3)
