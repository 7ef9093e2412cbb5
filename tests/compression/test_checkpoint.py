"""Checkpoints: what is read is what Hugging Face has, from a folder and from a GGUF file; damaged ones are refused."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, quants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import LlamaForCausalLM

from tests.support.checkpoints import hugging_face_model, save_folder, save_gguf
from triton_ads.compression.checkpoint import Checkpoint, CheckpointError, open_checkpoint
from triton_ads.compression.checkpoint_safetensors import SafetensorsReader


def parameters(model: LlamaForCausalLM) -> dict[str, Any]:
    return {name.removesuffix(".weight"): value.float().numpy() for name, value in model.state_dict().items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("checkpoint"), hugging_face_model())


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    return save_gguf(path, hugging_face_model(), GGMLQuantizationType.Q8_0)


def check_config(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    assert (config.hidden, config.intermediate, config.layers, config.heads) == (64, 96, 2, 4)
    assert (config.kv_heads, config.head_dim, config.vocabulary, config.positions) == (2, 16, 40, 128)
    assert (config.epsilon, config.bos_token, config.eos_tokens) == (1e-5, None, (0,))
    np.testing.assert_allclose(checkpoint.frequencies, 10000.0 ** (-np.arange(8) / 8), rtol=1e-6)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shard_size", ["5GB", "20KB"])
def test_a_folder(tied: bool, dtype: torch.dtype, shard_size: str, tmp_path: Path) -> None:
    model = hugging_face_model(tied).to(dtype)
    save_folder(tmp_path, model, shard_size)
    assert (tmp_path / "model.safetensors.index.json").exists() == (shard_size == "20KB")
    checkpoint = open_checkpoint(tmp_path)
    check_config(checkpoint)
    assert checkpoint.config.tied == tied
    wanted = parameters(model)
    for name in [*checkpoint.config.linear_layers(), *checkpoint.config.norms(), "model.embed_tokens"]:
        found = checkpoint.weight(name)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, wanted[name])


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", [GGMLQuantizationType[name] for name in ("F32", "F16", "Q8_0", "Q4_1", "Q4_0")])
def test_a_gguf_file(tied: bool, kind: GGMLQuantizationType, tmp_path: Path) -> None:
    """Rows of q and k are back in Hugging Face's order; every value is the quantised one."""
    model = hugging_face_model(tied)
    checkpoint = open_checkpoint(save_gguf(tmp_path / "model.gguf", model, kind))
    check_config(checkpoint)
    assert checkpoint.config.tied == tied
    wanted = parameters(model)
    for name in [*checkpoint.config.linear_layers(), "model.embed_tokens"]:
        quantised = quants.dequantize(quants.quantize(wanted[name], kind), kind)
        np.testing.assert_array_equal(checkpoint.weight(name), quantised)
    for name in checkpoint.config.norms():
        np.testing.assert_array_equal(checkpoint.weight(name), wanted[name])


def test_bf16_literal(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "one.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes([0x80, 0x3F, 0x20, 0xC0]))
    np.testing.assert_array_equal(SafetensorsReader(path).tensor("x"), [[1.0], [-2.5]])


def changed_config(folder: Path, tmp_path: Path, **changes: object) -> Path:
    """The folder with other lines in config.json; None removes one."""
    found = json.loads((folder / "config.json").read_text())
    found.update(changes)
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({n: v for n, v in found.items() if v is not None}))
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "qwen2"}, "model_type is 'qwen2'; 'llama' is allowed"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; 'silu' is allowed"),
        ({"attention_bias": True}, "attention_bias is True; a decoder without biases is allowed"),
        ({"hidden_size": None}, "config.json lacks 'hidden_size'"),
        ({"hidden_size": 0}, "hidden is 0; a whole number from 1"),
        ({"hidden_size": "64"}, "hidden is '64'; a whole number"),
        ({"num_key_value_heads": 3}, "heads is 4, kv_heads 3; the first must be a multiple"),
        ({"head_dim": 15}, "head_dim is 15; an even number up to 256"),
        ({"rms_norm_eps": 2.0}, "epsilon is 2.0; a number between 0 and 1"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rotary scaling is 'yarn'; 'default', 'linear'"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 4.0}}, "lacks a valid"),
        ({"eos_token_id": 40}, "special token 40; 0 to 39 allowed"),
    ],
)
def test_configurations_that_are_refused(
    changes: dict[str, object], message: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=re.escape(message)):
        open_checkpoint(changed_config(folder, tmp_path, **changes))


def test_weights_that_do_not_fit(folder: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(changed_config(folder, tmp_path, intermediate_size=97, num_hidden_layers=3))
    with pytest.raises(CheckpointError, match=re.escape("gate_proj is (96, 64); the configuration asks for (97, 64)")):
        checkpoint.weight("model.layers.0.mlp.gate_proj")
    with pytest.raises(CheckpointError, match=re.escape("model.layers.2.input_layernorm.weight is missing")):
        checkpoint.weight("model.layers.2.input_layernorm")


def test_a_weight_that_is_not_finite(tmp_path: Path) -> None:
    model = hugging_face_model()
    with torch.no_grad():
        model.model.norm.weight[3] = torch.inf
    with pytest.raises(CheckpointError, match=re.escape("model.norm holds a value that is not finite")):
        open_checkpoint(save_folder(tmp_path, model)).weight("model.norm")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file(missing: str, folder: Path, tmp_path: Path) -> None:
    changed_config(folder, tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(CheckpointError, match=re.escape(f"{missing} is missing")):
        open_checkpoint(tmp_path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="neither a checkpoint folder nor a GGUF file"):
        open_checkpoint(tmp_path / "none.gguf")


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", 3])
def test_an_index_names_files_of_its_folder_only(name: object, folder: Path, tmp_path: Path) -> None:
    changed_config(folder, tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"model.norm.weight": name}}))
    with pytest.raises(CheckpointError, match="is no name of a file in the folder"):
        open_checkpoint(tmp_path)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_safetensors(data: st.DataObject, folder: Path, tmp_path: Path) -> None:
    """Cut anywhere, or with bytes of the header changed: every weight is read or refused, nothing else happens."""
    raw = bytearray((folder / "model.safetensors").read_bytes())
    length = int.from_bytes(raw[:8], "little")
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, 8 + length - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)) | st.just(len(raw)))]
    changed_config(folder, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(raw)
    try:
        checkpoint = open_checkpoint(tmp_path)
    except CheckpointError:
        return
    for name in [*checkpoint.config.linear_layers(), *checkpoint.config.norms()]:
        try:
            assert checkpoint.weight(name).size
        except CheckpointError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.model is 'llama'; 'gpt2' is allowed"),
        ({"tokenizer.ggml.pre": "qwen2"}, "tokenizer.ggml.pre is 'qwen2'; 'gpt-2', 'smollm' and 'llama-bpe'"),
        ({"llama.rope.scaling.type": "yarn"}, "rotary scaling is 'yarn'; 'none' and 'linear' are allowed"),
        ({"llama.rope.dimension_count": 8}, "8 dimensions turn; all 16 of a head are allowed"),
        ({"llama.block_count": None}, "the field 'llama.block_count' is missing"),
        ({"llama.block_count": 0}, "layers is 0; a whole number from 1"),
    ],
)
def test_gguf_files_that_are_refused(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = save_gguf(tmp_path / "model.gguf", hugging_face_model(), GGMLQuantizationType.F32, **fields)
    with pytest.raises(CheckpointError, match=re.escape(message)):
        open_checkpoint(path)


def test_linear_scaling_of_gguf(tmp_path: Path) -> None:
    fields = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    path = save_gguf(tmp_path / "model.gguf", hugging_face_model(), GGMLQuantizationType.F32, **fields)
    np.testing.assert_allclose(open_checkpoint(path).frequencies, 10000.0 ** (-np.arange(8) / 8) / 4, rtol=1e-6)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_gguf(data: st.DataObject, gguf: Path, tmp_path: Path) -> None:
    """Cut anywhere: refused, or a weight is."""
    raw = gguf.read_bytes()
    path = tmp_path / "damaged.gguf"
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw) - 40))])
    with pytest.raises(CheckpointError):
        checkpoint = open_checkpoint(path)
        for name in [*checkpoint.config.linear_layers(), *checkpoint.config.norms()]:
            checkpoint.weight(name)


def test_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"GGML" + bytes(100))
    with pytest.raises(CheckpointError, match="no GGUF file that can be read"):
        open_checkpoint(tmp_path / "x.gguf")
