"""Requests in the same forwards beside one after the other, as the generator serves them: INT4, prompts included.

Weights are read once for all of them. That is worth most where a request alone has few rows in a forward, so a beam of
4 is measured beside the beam of 20.
"""

import argparse
import time
from functools import partial

from triton_ads.bench.report import Report, Row
from triton_ads.bench.target_model import VOCABULARY, random_decoder
from triton_ads.bench.target_searches import BEAM, LENGTH, OurSearch, random_prompt, tree_decoder
from triton_ads.bench.target_trees import random_tree
from triton_ads.bench.timing import interleave
from triton_ads.compression.pack_model import uniform
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.serving.target.calibrate import calibrate
from triton_ads.serving.target.search import Found

_PROMPT = 32
_REQUESTS = (1, 4, 16)
_TOGETHER, _APART = "together", "one after the other"


def measure(report: Report, args: argparse.Namespace) -> None:
    tree = random_tree(args.ads, LENGTH, VOCABULARY)
    decoder = tree_decoder(random_decoder(uniform(Pattern.DENSE, Values.INT4)), _PROMPT)
    cost = calibrate(decoder, _PROMPT, BEAM)
    for beam in (BEAM, 4):
        ours = OurSearch(decoder, tree, cost, beam=beam)
        for requests in _REQUESTS:
            prompts = [random_prompt(_PROMPT, seed) for seed in range(requests)]
            alone = ours.one_by_one(prompts)
            _check_same(ours.together(prompts), alone)
            contenders = {_TOGETHER: partial(ours.together, prompts), _APART: partial(ours.one_by_one, prompts)}
            timings = interleave(contenders, args.rounds, clock=time.process_time)  # type: ignore[arg-type]
            name = f"{requests} requests, beam {beam}, prompts of {_PROMPT}, INT4"
            report.add_timings(name, timings)
            tokens = sum(_PROMPT + found.tokens for found in alone)
            for contender in contenders:
                speed = tokens / timings.median(contender) * 1e3
                report.rows.append(Row(name, contender, "tokens", speed, "1/s", timings.rounds))
            ratio = timings.ratio(_APART, _TOGETHER)
            report.rows.append(Row(name, f"{_APART} / {_TOGETHER}", "ratio", ratio, "", timings.rounds))


def _check_same(found: list[Found], alone: list[Found]) -> None:
    for one, other in zip(found, alone, strict=True):
        if one.node_B.tolist() != other.node_B.tolist() or one.score_B.tolist() != other.score_B.tolist():
            raise RuntimeError("a request that is searched among others has another answer than alone")
