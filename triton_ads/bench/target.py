"""Benchmark `target`: constrained beam search in a tree of a million ads, beside Hugging Face's.

A decoder of 12 layers x 512 (titles: SmolLM2-135M), beam 20, identifiers of 6 tokens, one thread. All contenders answer
the same prompts; that they find the same ads is checked before anything is measured. Times of searches are processor
time: on a machine that does nothing else it is what passes, and on another it is still what a search costs.

    hugging-face   generate with a prefix function, as documented and with the prompt run once
    constraint     what the tree costs a step, from 20,000 to 10 million ads; what withheld ads cost a request
    verification   forwards of up to 1,600 nodes: is their time a line?
    trigger        beside every fixed level and stepping, on seven trees
    together       1, 4 and 16 requests in the same forwards, beside one after the other
    titles         titles as text: verification beside stepping

At full size it takes about ten minutes, three of them for Hugging Face and two for the tree of 10 million ads.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from triton_ads.bench import (
    target_constraint,
    target_hugging_face,
    target_titles,
    target_together,
    target_trigger,
    target_verification,
)
from triton_ads.bench.report import Report
from triton_ads.bench.target_searches import BEAM
from triton_ads.commands.options import whole

Part = Callable[[Report, argparse.Namespace], None]
PARTS: dict[str, Part] = {
    "hugging-face": target_hugging_face.measure,
    "constraint": target_constraint.measure,
    "verification": target_verification.measure,
    "trigger": target_trigger.measure,
    "together": target_together.measure,
    "titles": target_titles.measure,
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="by default all")
    parser.add_argument("--ads", type=whole(100), default=1_000_000, help="of the tree (%(default)s)")
    parser.add_argument("--prompts", type=whole(2), nargs="+", default=[128, 512], help="tokens (%(default)s)")
    parser.add_argument("--rounds", type=whole(1), default=5, help="turns of every contender (%(default)s)")
    parser.add_argument("--skip-documented", action="store_true", help="without the slow peer")
    parser.add_argument(
        "--largest-tree", type=whole(100), default=10_000_000, help="ads, of the constraint's row (%(default)s)"
    )
    parser.add_argument(
        "--downloads", type=Path, default=Path("var/downloads"), help="where the films are, or go to (%(default)s)"
    )


def run(args: argparse.Namespace) -> Report:
    report = Report(f"constrained beam search, {args.ads} ads, beam {BEAM}, one thread")
    for name in args.parts:
        print(f"{name} ...", flush=True)
        PARTS[name](report, args)
    return report
