"""Benchmark `target`: constrained beam search in a tree of a million ads, beside Hugging Face's.

A decoder of 12 layers x 512, beam 20, identifiers of 6 tokens, one thread. All contenders answer the same prompts;
that they find the same ads is checked before anything is measured.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.report import Report, Row
from triton_ads.bench.target_model import THETA, VOCABULARY, random_decoder
from triton_ads.bench.target_trees import random_tree, shaped_tree
from triton_ads.bench.timing import interleave
from triton_ads.compression.pack_model import uniform
from triton_ads.compression.packed_model import PackedModel
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.calibrate import calibrate, forward_ms
from triton_ads.serving.target.packed import PackedSession, PackedTreeDecoder
from triton_ads.serving.target.search import Found, search
from triton_ads.serving.target.together import Request, run_together
from triton_ads.serving.target.trigger import ForwardCost, Trigger
from triton_ads.trie import Blocked, Tree
from triton_ads.trie.shape import shape_of

_BEAM, _LENGTH = 20, 6
_ONCE, _DOCUMENTED = "Hugging Face, prompt run once", "Hugging Face, as documented"
_SHAPES: dict[str, tuple[int, ...]] = {
    "512 16 8 4 2 2": (512, 16, 8, 4, 2, 2),
    "2048 16 2 2 1 1": (2048, 16, 2, 2, 1, 1),
    "4096 6 1 1 1 1": (4096, 6, 1, 1, 1, 1),
    "10 10 10 10 10 10": (10, 10, 10, 10, 10, 10),
    "2 2 4 8 16 512": (2, 2, 4, 8, 16, 512),
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ads", type=int, default=1_000_000, help="of the tree (%(default)s)")
    parser.add_argument("--prompts", type=int, nargs="+", default=[128, 512], help="tokens (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every contender (%(default)s)")
    parser.add_argument("--skip-documented", action="store_true", help="without the slow peer")
    parser.add_argument("--largest-tree", type=int, default=10_000_000, help="ads, of the constraint's row")


def run(args: argparse.Namespace) -> Report:
    import torch

    torch.set_num_threads(1)
    report = Report(f"constrained beam search, {args.ads} ads, beam {_BEAM}, one thread")
    model = random_decoder(uniform(Pattern.DENSE, Values.BF16))
    _against_hugging_face(report, model, args)
    _constraint(report, [20_000, args.ads, args.largest_tree])
    _verification_time(report, model)
    _trigger(report, model, args)
    return report


def _prompt(length: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng([length, seed]).integers(4, VOCABULARY, length)


class OurSearch:
    """One search after the other in one tree, all of mode `beam`."""

    def __init__(self, decoder: PackedTreeDecoder, tree: Tree, cost: ForwardCost, at: int | None = None) -> None:
        self._decoder, self._tree = decoder, tree
        self._trigger, self._blocked = Trigger(tree, cost, most=decoder.nodes // 2, at=at), Blocked(tree)

    def whole(self, prompt: NDArray[np.int64]) -> Found:
        """The prompt and the search."""
        session = self._decoder.session(prompt)
        found = self._search(session)
        self._decoder.release(session)
        return found

    def after(self, session: PackedSession, last: NDArray[np.int64]) -> Found:
        """The search alone: behind a session that has run the prompt but for its last token."""
        memory = session.memory
        memory.cut(self._decoder.prompt_tokens - 1)
        return self._search(PackedSession(memory, last))

    def identifiers(self, prompt: NDArray[np.int64]) -> dict[tuple[int, ...], float]:
        found = self.whole(prompt)
        paths = (tuple(self._tree.path(int(node))) for node in found.node_B)
        return dict(zip(paths, found.score_B.tolist(), strict=True))

    def _search(self, session: PackedSession) -> Found:
        one = search(self._tree, self._blocked, self._trigger, _BEAM, "beam")
        request = Request(session, one)
        run_together(self._decoder, [request])
        assert request.found is not None  # nothing stops it
        return request.found


def _against_hugging_face(report: Report, model: PackedModel, args: argparse.Namespace) -> None:
    from triton_ads.bench.hugging_face_llama import hugging_face
    from triton_ads.bench.target_peers import HuggingFaceBeams

    tree = random_tree(args.ads, _LENGTH, VOCABULARY)
    peer = HuggingFaceBeams(hugging_face(model, THETA), tree, _BEAM)
    for length, least in zip(args.prompts, (8, 12), strict=False):
        decoder, prompt, case = _decoder(model, length), _prompt(length, 0), f"prompt of {length}"
        cost = calibrate(decoder, length, _BEAM)
        ours, stepping = OurSearch(decoder, tree, cost), OurSearch(decoder, tree, cost, at=0)
        _check_same(ours.identifiers(prompt), peer.prefilled(prompt), case)
        contenders: dict[str, Callable[[], object]] = {
            "ours": partial(ours.whole, prompt),
            "ours, without verification": partial(stepping.whole, prompt),
            _ONCE: partial(peer.prefilled, prompt),
        }
        if not args.skip_documented:
            contenders[_DOCUMENTED] = partial(peer.documented, prompt)
        print(f"{case} tokens: {args.rounds} rounds of {len(contenders)} contenders", flush=True)
        timings = interleave(contenders, args.rounds)
        report.add_timings(case, timings)
        report.claim(f"{case}: {_ONCE} / ours", timings.ratio(_ONCE, "ours"), ">=", 2)
        if not args.skip_documented:
            report.claim(f"{case}: {_DOCUMENTED} / ours", timings.ratio(_DOCUMENTED, "ours"), ">=", least)


def _check_same(ours: dict[tuple[int, ...], float], peers: dict[tuple[int, ...], float], what: str) -> None:
    worst = max((abs(ours[i] - peers[i]) for i in ours.keys() & peers.keys()), default=0.0)
    if ours.keys() != peers.keys() or worst > 1e-3:
        raise RuntimeError(f"{what}: {len(ours.keys() & peers.keys())} of {_BEAM} ads agree, scores to {worst:.1e}")


def _constraint(report: Report, sizes: list[int]) -> None:
    """Children of 20 random nodes of level 2, which is what a step asks of the tree, in trees of several sizes."""
    medians = []
    for ads in sizes:
        print(f"constraint step in a tree of {ads} ads", flush=True)
        tree = random_tree(ads, _LENGTH, VOCABULARY)
        blocked = Blocked(tree)
        random = np.random.default_rng(0)
        times = []
        for _ in range(300):
            nodes = random.integers(tree.level_start[2], tree.level_start[3], _BEAM)
            began = time.perf_counter()
            blocked.children(nodes)
            times.append((time.perf_counter() - began) * 1e6)
        medians.append(float(np.median(times)))
        report.rows.append(Row("constraint step, level 2", f"{ads} ads", "median", medians[-1], "us", len(times)))
    report.claim("constraint step, us", max(medians), "<=", 50)
    report.claim("constraint step: slowest / fastest tree", max(medians) / min(medians), "<=", 1.15)


def _verification_time(report: Report, model: PackedModel) -> None:
    """Forwards of up to 1,600 nodes behind a prompt of 128: how well a line fits."""
    sizes = [1, 20, 100, 200, 400, 800, 1200, 1600]
    decoder = _decoder(model, 128)
    print("verification of 1 to 1,600 nodes", flush=True)
    timings = [[forward_ms(decoder, 128, size, 1) for size in sizes] for _ in range(3)]
    medians = np.median(timings, axis=0)
    slope, fixed = np.polyfit(sizes, medians, 1)
    residual = medians - (fixed + slope * np.array(sizes))
    r2 = 1 - float((residual**2).sum() / ((medians - medians.mean()) ** 2).sum())
    for size, median in zip(sizes, medians.tolist(), strict=True):
        report.rows.append(Row("verification", f"{size} nodes", "median", median, "ms", 3))
    report.rows.append(Row("verification", "line", "fixed", float(fixed), "ms", 1))
    report.rows.append(Row("verification", "line", "a node", float(slope), "ms", 1))
    report.claim("verification: R^2 of a line to 1,600 nodes", r2, ">=", 0.98)


def _trigger(report: Report, model: PackedModel, args: argparse.Namespace) -> None:
    """The trigger beside every fixed level and beside stepping to the end, on seven trees; without the prompt."""
    trees = {f"random, {ads} ads": random_tree(ads, _LENGTH, VOCABULARY) for ads in (20_000, args.ads)}
    trees |= {name: shaped_tree(branching, VOCABULARY) for name, branching in _SHAPES.items()}
    decoder = _decoder(model, 128)
    cost = calibrate(decoder, 128, _BEAM)
    behind = [_run_but_last(decoder, _prompt(128, seed)) for seed in range(3)]
    to_best, to_stepping = [], []
    for name, tree in trees.items():
        print(f"trigger in tree {name}", flush=True)
        searches = {"stepping": OurSearch(decoder, tree, cost, at=0), "trigger": OurSearch(decoder, tree, cost)}
        # A level below which a beam finds thousands of nodes would take minutes and is never the best.
        levels = [level.level for level in shape_of(tree, _BEAM, 0, 1).levels if level.verify_tokens < 1500]
        searches |= {f"at level {k}": OurSearch(decoder, tree, cost, at=k) for k in levels if k < _LENGTH}
        timings = interleave({label: partial(_all, one, behind) for label, one in searches.items()}, args.rounds)
        report.add_timings(f"tree {name}", timings)
        best = min((label for label in searches if label != "trigger"), key=timings.median)
        to_best.append(timings.ratio("trigger", best))
        to_stepping.append(timings.ratio("trigger", "stepping"))
        report.rows.append(Row(f"tree {name}", f"trigger / {best}", "ratio", to_best[-1], "", args.rounds))
    report.claim("trigger / best fixed level, worst of seven trees", max(to_best), "<=", 1.15)
    report.claim("trigger / stepping, worst of seven trees", max(to_stepping), "<=", 1.05)


def _run_but_last(decoder: PackedTreeDecoder, prompt: NDArray[np.int64]) -> tuple[PackedSession, NDArray[np.int64]]:
    session = decoder.session(prompt)
    session.memory.extend(prompt[:-1], rows="none")
    return session, prompt[-1:]


def _all(one: OurSearch, behind: list[tuple[PackedSession, NDArray[np.int64]]]) -> None:
    for session, last in behind:
        one.after(session, last)


def _decoder(model: PackedModel, prompt_tokens: int) -> PackedTreeDecoder:
    return PackedTreeDecoder(Decoder(model), prompt_tokens, 4_000, cache="float32")
