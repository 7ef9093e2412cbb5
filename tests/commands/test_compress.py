"""The command, from a checkpoint's folder to a packed model that the decoder runs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from tests.support.checkpoints import hugging_face_model, save_folder
from triton_ads.cli import main
from triton_ads.compression.checkpoint import open_checkpoint
from triton_ads.compression.llama import build_llama, with_weights
from triton_ads.compression.packed_model import read_packed_model
from triton_ads.compression.packing import dequantised
from triton_ads.serving.decoder import Decoder

WORDS = "the quick brown fox jumps over a lazy dog and back again"
RECIPE = {
    "patterns": ["2:4", "1:4"],
    "budget": {"bits_per_weight": 3.0},
    "calibration": {"text": ["ads.txt"], "sequences": 4, "tokens": 32},
    "recovery": {"steps": 2, "tokens": 32},
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint, a recipe and its text."""
    save_folder(tmp_path / "model", hugging_face_model())
    rng = np.random.default_rng(0)
    words = WORDS.split()
    text = "\n\n".join(" ".join(rng.choice(words, 30)) for _ in range(40))
    (tmp_path / "ads.txt").write_text(text, encoding="utf-8")
    (tmp_path / "own.compress.yaml").write_text(yaml.safe_dump(RECIPE))
    return tmp_path


def compress(folder: Path, out: str = "packed") -> int:
    recipe, model = folder / "own.compress.yaml", folder / "model"
    return main(["compress", "--recipe", str(recipe), "--checkpoint", str(model), "--out", str(folder / out)])


def test_a_checkpoint_becomes_a_packed_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compress(folder) == 0
    printed = capsys.readouterr().out
    assert "what each matrix got" in printed and "CSR, INT4 values, int16 indices" in printed
    packed = read_packed_model(folder / "packed")
    report = json.loads((folder / "packed" / "report.json").read_text())
    assert report["bits_per_weight"] <= 3.0
    assert report["bytes_per_token"] == packed.weight_bytes
    assert {one["pattern"] for one in report["matrices"]} == {"dense", "2:4", "1:4"}
    assert report["perplexity_before"] > 1 and report["perplexity_after"] > 1

    # The decoder computes what the calibration's forward computes with the dequantised weights.
    tokens = np.random.default_rng(1).integers(1, 40, 12).tolist()
    found = Decoder(packed).sequence(len(tokens)).extend(tokens)[-1]
    model = build_llama(open_checkpoint(folder / "model"))
    model.model.embed_tokens.weight.data = model.model.embed_tokens.weight.bfloat16().float()
    weights = {name: dequantised(matrix) for name, matrix in packed.matrices.items()}
    with with_weights(model, weights), torch.no_grad():
        wanted = model(torch.tensor([tokens]))[0, -1].numpy()
    # 16-bit activations: 1e-4 a product at most, some products deep; a float16 cache: 5e-4.
    assert np.linalg.norm(found - wanted) < 3e-3 * np.linalg.norm(wanted)


def test_the_same_bytes_twice(folder: Path) -> None:
    assert compress(folder, "one") == compress(folder, "two") == 0
    for name in ("model.safetensors", "report.json"):
        assert (folder / "one" / name).read_bytes() == (folder / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": {"bits_per_weight": 1.0}}, "bits_per_weight 1: too little with groups of 64; "),
        ({"budget": {"megabytes": 0.001}}, r" megabytes are possible"),
        ({"calibration": {"text": ["ads.txt"], "sequences": 4000}}, "4000 sequences of 512 tokens need 2048000"),
        ({"calibration": {"text": ["none.txt"]}}, "none.txt"),
        ({"patterns": ["4:8"]}, "found '4:8'"),
    ],
)
def test_refusals_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], message: str
) -> None:
    (folder / "own.compress.yaml").write_text(yaml.safe_dump(RECIPE | changes))
    assert compress(folder) == 1
    error = capsys.readouterr().err
    assert error.startswith("triton-ads compress: ") and message in error
    assert not (folder / "packed").exists()
