"""The whole answer, prompt included, beside Hugging Face's `generate`."""

import argparse
import time
from collections.abc import Callable
from functools import partial

from triton_ads.bench.report import Report
from triton_ads.bench.target_model import THETA, VOCABULARY, random_decoder
from triton_ads.bench.target_searches import BEAM, LENGTH, OurSearch, random_prompt, tree_decoder
from triton_ads.bench.target_trees import random_tree
from triton_ads.bench.timing import interleave
from triton_ads.compression.pack_model import uniform
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.serving.target.calibrate import calibrate

_ONCE, _DOCUMENTED = "Hugging Face, prompt run once", "Hugging Face, as documented"
#: How much faster than `generate` as documented, by the prompt's length.
_LEAST = {128: 8, 512: 12}


def measure(report: Report, args: argparse.Namespace) -> None:
    import torch

    from triton_ads.bench.hugging_face_llama import hugging_face
    from triton_ads.bench.target_peers import HuggingFaceBeams

    torch.set_num_threads(1)
    model = random_decoder(uniform(Pattern.DENSE, Values.BF16))
    tree = random_tree(args.ads, LENGTH, VOCABULARY)
    peer = HuggingFaceBeams(hugging_face(model, THETA), tree, BEAM)
    for length in args.prompts:
        decoder, prompt, case = tree_decoder(model, length), random_prompt(length, 0), f"prompt of {length}"
        cost = calibrate(decoder, length, BEAM)
        ours, stepping = OurSearch(decoder, tree, cost), OurSearch(decoder, tree, cost, at=0)
        _check_same(ours.identifiers(prompt), peer.prefilled(prompt), case)
        contenders: dict[str, Callable[[], object]] = {
            "ours": partial(ours.together, [prompt]),
            "ours, without verification": partial(stepping.together, [prompt]),
            _ONCE: partial(peer.prefilled, prompt),
        }
        if not args.skip_documented:
            contenders[_DOCUMENTED] = partial(peer.documented, prompt)
        timings = interleave(contenders, args.rounds, clock=time.process_time)
        report.add_timings(case, timings)
        report.claim(f"{case}: {_ONCE} / ours", timings.ratio(_ONCE, "ours"), ">=", 2)
        if not args.skip_documented and length in _LEAST:
            report.claim(f"{case}: {_DOCUMENTED} / ours", timings.ratio(_DOCUMENTED, "ours"), ">=", _LEAST[length])


def _check_same(ours: dict[tuple[int, ...], float], peers: dict[tuple[int, ...], float], what: str) -> None:
    worst = max((abs(ours[i] - peers[i]) for i in ours.keys() & peers.keys()), default=0.0)
    if ours.keys() != peers.keys() or worst > 1e-3:
        raise RuntimeError(f"{what}: {len(ours.keys() & peers.keys())} of {BEAM} ads agree, scores to {worst:.1e}")
