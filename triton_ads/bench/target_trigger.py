"""The trigger beside every fixed level and beside stepping to the end, on seven trees; without the prompt."""

import argparse

from triton_ads.bench.report import Report, Row
from triton_ads.bench.target_model import VOCABULARY, random_decoder
from triton_ads.bench.target_searches import (
    BEAM,
    LENGTH,
    OurSearch,
    Prompted,
    random_prompt,
    time_searches,
    tree_decoder,
)
from triton_ads.bench.target_trees import random_tree, shaped_tree
from triton_ads.compression.pack_model import uniform
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.serving.target.calibrate import calibrate
from triton_ads.trie.shape import shape_of

_PROMPT, _PROMPTS = 128, 3
#: Children of a node, level by level.
_SHAPES = (
    (512, 16, 8, 4, 2, 2),
    (2048, 16, 2, 2, 1, 1),
    (4096, 6, 1, 1, 1, 1),
    (10, 10, 10, 10, 10, 10),
    (2, 2, 4, 8, 16, 512),
)
#: A level below which a beam finds more nodes than this would take minutes and is never the best.
_MOST_NODES = 1500


def measure(report: Report, args: argparse.Namespace) -> None:
    trees = {f"random, {ads} ads": random_tree(ads, LENGTH, VOCABULARY) for ads in (20_000, args.ads)}
    trees |= {" ".join(map(str, shape)): shaped_tree(shape, VOCABULARY) for shape in _SHAPES}
    decoder = tree_decoder(random_decoder(uniform(Pattern.DENSE, Values.BF16)), _PROMPT)
    cost = calibrate(decoder, _PROMPT, BEAM)
    behind = [Prompted.of(decoder, random_prompt(_PROMPT, seed)) for seed in range(_PROMPTS)]
    to_best, to_stepping = [], []
    for name, tree in trees.items():
        levels = [level.level for level in shape_of(tree, BEAM, 0, 1).levels if level.verify_tokens < _MOST_NODES]
        searches = {"stepping": OurSearch(decoder, tree, cost, at=0), "trigger": OurSearch(decoder, tree, cost)}
        searches |= {f"at level {k}": OurSearch(decoder, tree, cost, at=k) for k in levels if k < LENGTH}
        timings = time_searches(searches, behind, args.rounds)
        report.add_timings(f"tree {name}", timings)
        best = min((label for label in searches if label != "trigger"), key=timings.median)
        to_best.append(timings.ratio("trigger", best))
        to_stepping.append(timings.ratio("trigger", "stepping"))
        report.rows.append(Row(f"tree {name}", f"trigger / {best}", "ratio", to_best[-1], "", args.rounds))
    report.claim("trigger / best fixed level, worst of seven trees", max(to_best), "<=", 1.15)
    report.claim("trigger / stepping, worst of seven trees", max(to_stepping), "<=", 1.05)
