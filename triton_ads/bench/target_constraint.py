"""What the tree costs: a step's look-up, and what is withheld from a request."""

import argparse
import time
from collections.abc import Callable

import numpy as np

from triton_ads.bench.report import Report, Row
from triton_ads.bench.target_model import VOCABULARY
from triton_ads.bench.target_searches import BEAM, LENGTH
from triton_ads.bench.target_trees import random_tree
from triton_ads.trie import Blocked, Tree, Withheld

_LOOKUPS, _REQUESTS = 500, 200
#: Ads that nobody is answered with, and those of one request.
_BLOCKED, _OWN = 10_000, (0, 10, 100)


def measure(report: Report, args: argparse.Namespace) -> None:
    trees = [random_tree(ads, LENGTH, VOCABULARY) for ads in (20_000, args.ads, args.largest_tree)]
    _step(report, trees)
    _withheld(report, trees[1])


def _step(report: Report, trees: list[Tree]) -> None:
    """Children of 20 random nodes of level 2, which is what a step asks of the tree; the trees take turns."""
    blocked = [Blocked(tree) for tree in trees]
    random = np.random.default_rng(0)
    times = np.zeros((len(trees), _LOOKUPS))
    for turn in range(_LOOKUPS):
        for i, tree in enumerate(trees):
            nodes = random.integers(tree.level_start[2], tree.level_start[3], BEAM)
            times[i, turn] = _microseconds(lambda i=i, nodes=nodes: blocked[i].children(nodes))  # type: ignore[misc]
    medians = np.median(times, axis=1)
    for tree, median in zip(trees, medians.tolist(), strict=True):
        report.rows.append(Row("constraint step, level 2", f"{tree.ads} ads", "median", median, "us", _LOOKUPS))
    report.claim("constraint step, us", float(medians.max()), "<=", 50)
    report.claim("constraint step: slowest / fastest tree", float(medians.max() / medians.min()), "<=", 1.15)


def _withheld(report: Report, tree: Tree) -> None:
    """A request's own ads beside 10,000 that are blocked for all."""
    random = np.random.default_rng(0)
    blocked = Blocked(tree, random.choice(tree.ad, min(_BLOCKED, tree.ads // 2), replace=False).tolist())
    name = f"withheld ads, tree of {tree.ads}, {len(blocked.ads)} blocked"
    for own in _OWN:
        chosen = [np.unique(random.choice(tree.ad, own)) for _ in range(_REQUESTS)]
        times = [_microseconds(lambda ads=ads: Withheld(blocked, ads)) for ads in chosen]  # type: ignore[misc]
        report.rows.append(Row(name, f"{own} of a request", "median", float(np.median(times)), "us", _REQUESTS))


def _microseconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return (time.perf_counter() - began) * 1e6
