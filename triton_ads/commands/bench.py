"""Run a benchmark: it prints a table of figures and of the claims that they bear out or not.

    triton-ads bench ranking
    triton-ads bench ranking --json ranking.json

Contenders run in turns in one process, so compare figures within a run, not between runs. Exit status 0 whether or
not a claim holds: the table and the JSON say which.
"""

import argparse
import importlib
from pathlib import Path

from rich.console import Console

#: Name -> the line that `triton-ads bench --help` shows. The module is triton_ads.bench.MODULE.
BENCHMARKS = {
    "ranking": "what splitting is worth: row-wise, split by hand, split by the compiler",
    "ensemble": "the service on the real server: time outside the engines, batching, mixed tiers",
    "serving": "the service under load, beside naive serving on Triton, a shared model without mixing, and FastAPI",
    "router": "quality against mean FLOPs, by whoever chooses the requests of the high tier",
    "evidence": "what journeys, EPNet, depth and the high tier are worth, where the best prediction is known",
    "target": "constrained beam search in a tree of ads, beside Hugging Face's generate",
    "targeting": "the paper's table of targeted advertising, on MovieLens: recall and time, dense to verified",
    "quality": "what compression costs: perplexity and answers against bytes and tokens/s, beside llama.cpp",
    "gemv": "products with packed INT4 N:M weights, beside NumPy, torch, ONNX Runtime and llama.cpp",
    "decode": "tokens a second of a decoder with packed weights, dense to mixed sparse, beside llama.cpp",
}


def configure(parser: argparse.ArgumentParser) -> None:
    names = parser.add_subparsers(dest="benchmark", metavar="NAME", required=True)
    for name, line in BENCHMARKS.items():
        sub = names.add_parser(name, help=line, description=line)
        sub.add_argument("--json", type=Path, metavar="FILE", help="also write machine, rows and claims as JSON")
        importlib.import_module(f"triton_ads.bench.{name}").configure(sub)


def run(args: argparse.Namespace) -> int:
    report = importlib.import_module(f"triton_ads.bench.{args.benchmark}").run(args)
    console = Console()
    report.print(console if console.is_terminal else Console(width=140))  # in a file lines need not wrap
    if args.json:
        report.save(args.json)
    return 0
