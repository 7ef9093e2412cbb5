"""Compress a llama-family checkpoint: N:M sparsity and INT4, chosen by calibration text; write a packed model.

  triton-ads compress --recipe build/recipes/mix.compress.yaml --checkpoint model.gguf --out var/packed
  triton-ads compress --checkpoint my-llama/ --out var/packed          the recipe mix.compress.yaml

Writes into the folder model.safetensors and tokenizer.json, which the decoder reads, and report.json: what each matrix
got, what it costs, perplexity before and after on text held out. The recipe is described in docs/compression.md.
"""

import argparse
import json
from pathlib import Path

from triton_ads.commands.options import whole

DEFAULT_RECIPE = Path("build/recipes/mix.compress.yaml")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", type=Path, default=DEFAULT_RECIPE, metavar="FILE", help="what to do (%(default)s)")
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="PATH",
                        help="a Hugging Face folder with safetensors, or a GGUF file")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the packed model goes")
    parser.add_argument("--threads", type=whole(1, 1024), metavar="N", help="threads to compute with (all cores)")


def run(args: argparse.Namespace) -> int:
    import torch
    from rich.console import Console

    from triton_ads.compression.compress import compress
    from triton_ads.compression.recipe import load_compression_recipe
    from triton_ads.compression.report import tables

    if args.threads:
        torch.set_num_threads(args.threads)
    recipe = load_compression_recipe(args.recipe)
    report = compress(recipe, args.checkpoint, args.out)
    (args.out / "report.json").write_text(json.dumps(report.to_json(), indent=1) + "\n")
    console = Console()
    for table in tables(report):
        (console if console.is_terminal else Console(width=140)).print(table)
    print(
        f"{report.bits_per_weight:.3f} bits a weight, {report.bytes_per_token / 1e6:.1f} MB read a token, "
        f"{report.bytes / 1e6:.1f} MB in all; perplexity on held-out text {report.perplexity_before:.2f} before, "
        f"{report.perplexity_after:.2f} after\nPacked model: {args.out}"
    )
    return 0
