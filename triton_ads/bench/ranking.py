"""`bench ranking`: what splitting is worth, on the default ranker and on six others, in ONNX Runtime.

The default ranker meets four contenders with the same weights: the row-wise graph as written; the model split by hand;
split by the compiler; and the matrix products of the compiled item part, alone. The six rankers of bench/rankers, which
the compiler was not made for, run row-wise and compiled. A time is that of one request: the user part once and the item
part for all candidates, in tiles.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from triton_ads.bench.graphs import Graph, Request, SplitGraphs, quiet_export
from triton_ads.bench.hand_split import HandItem, HandUser
from triton_ads.bench.products import products_only
from triton_ads.bench.rankers import RANKERS, Ranker
from triton_ads.bench.report import Report, Row
from triton_ads.bench.timing import Timings, interleave
from triton_ads.export.onnx_graph import export_onnx
from triton_ads.export.tier import SIDES, Probability
from triton_ads.models import HyFormer, build_model
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe, load_recipe, parse_recipe

_TABLE_ROWS = 1000  # of every vocabulary: what a lookup costs does not depend on training
_CLAIMED = 256  # candidates at which ratios are claimed
#: How many times faster than row-wise each of the six must be at _CLAIMED candidates; nothing may be slower.
FLOORS = {"din": 1.8, "dlrm": 1.2, "target_attention": 4.0}
NO_SLOWER = 0.97
_TILE = 64  # of the six


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe", type=Path, default=Path("build/recipes/movielens.yaml"), help="default: %(default)s"
    )
    parser.add_argument("--tier", default="high", help="a hyformer tier of the recipe (default: %(default)s)")
    parser.add_argument("--candidates", type=int, nargs="+", default=[64, _CLAIMED, 1000], help="default: %(default)s")
    parser.add_argument("--history", type=int, nargs="+", default=[50, 512], help="events (default: %(default)s)")
    parser.add_argument(
        "--rankers",
        nargs="*",
        choices=["default", *RANKERS],
        default=["default", *RANKERS],
        metavar="NAME",
        help="of " + ", ".join(["default", *RANKERS]) + " (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=15, help="turns of every contender (default: %(default)s)")


def run(args: argparse.Namespace) -> Report:
    report = Report("one request on one thread: milliseconds")
    recipe = load_recipe(args.recipe)
    for length in args.history if "default" in args.rankers else ():
        _progress(f"{recipe.name} {args.tier}, history {length}: exporting")
        contenders = _Contenders(_with_history(recipe, length), args.tier)
        for candidates in args.candidates:
            _progress(f"{recipe.name} {args.tier}, history {length}: {candidates} candidates")
            timings = interleave(contenders.on(candidates), _rounds(args.rounds, length, candidates))
            _add(report, timings, length, candidates)
    for name in [name for name in args.rankers if name != "default"]:
        _progress(f"{RANKERS[name].title}: exporting")
        ranker = _Foreign(RANKERS[name])
        for candidates in args.candidates:
            _progress(f"{RANKERS[name].title}: {candidates} candidates")
            timings = interleave(ranker.on(candidates), args.rounds)
            _add_foreign(report, timings, name, candidates)
    return report


def _progress(text: str) -> None:
    """What is measured now: a run takes minutes. Apart from the figures, which go to standard output."""
    print(f"bench ranking: {text}", file=sys.stderr, flush=True)


def _rounds(rounds: int, length: int, candidates: int) -> int:
    """Fewer turns where one takes seconds."""
    return max(5, min(rounds, 15 * 50 * 256 // (length * candidates)))


def _add(report: Report, timings: Timings, length: int, candidates: int) -> None:
    name = f"T={length}, {candidates} candidates"
    report.add_timings(name, timings)
    faster = timings.ratio("row-wise", "compiled")
    beside_hand = timings.ratio("compiled", "by hand")
    beside_products = timings.ratio("compiled item part", "its products alone")
    for metric, value in (
        ("row-wise / ours", faster),
        ("ours / by hand", beside_hand),
        ("item part / products", beside_products),
    ):
        report.rows.append(Row(name, "compiled", metric, value, "ratio", timings.rounds))
    if candidates == _CLAIMED:
        report.claim(f"{name}: row-wise / ours", faster, ">=", 10 if length >= 512 else 2.8)
        report.claim(f"{name}: ours / by hand", beside_hand, "<=", 1.1)
        report.claim(f"{name}: item part / its matrix products alone", beside_products, "<=", 1.7)


def _with_history(recipe: Recipe, length: int) -> Recipe:
    document = recipe.model_dump(mode="json")
    for sequence in document["sequences"]:
        sequence["length"] = length
    return parse_recipe(document)


def _add_foreign(report: Report, timings: Timings, name: str, candidates: int) -> None:
    case = f"{RANKERS[name].title}, {candidates} candidates"
    report.add_timings(case, timings)
    faster = timings.ratio("row-wise", "compiled")
    report.rows.append(Row(case, "compiled", "row-wise / ours", faster, "ratio", timings.rounds))
    if candidates == _CLAIMED:
        report.claim(f"{case}: row-wise / ours", faster, ">=", FLOORS.get(name, NO_SLOWER))


class _Foreign:
    """The graphs of one of the six rankers."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker
        self.graphs = SplitGraphs.of(ranker.module(), ranker.draw(12), ranker.sides)

    def on(self, candidates: int) -> dict[str, Callable[[], object]]:
        """Both contenders on one request, of a user with a full history; they are checked to agree first."""
        sides = self.ranker.sides
        user = {name: rows[1:2] for name, rows in self.ranker.draw(2, seed=1).items() if sides[name] == "user"}
        items = {name: rows for name, rows in self.ranker.draw(candidates, seed=2).items() if sides[name] == "item"}
        request = Request.of(user, items, _TILE)

        def compiled() -> NDArray[np.float32]:
            return self.graphs.item({**request.tiled, "state": self.graphs.user(request.user)})

        expected = self.graphs.row(request.flat)
        np.testing.assert_allclose(request.unpad(compiled()), expected, rtol=0, atol=1e-5)
        return {"row-wise": lambda: self.graphs.row(request.flat), "compiled": compiled}


class _Contenders:
    """The graphs of all contenders for one recipe, and requests for them."""

    def __init__(self, recipe: Recipe, tier: str) -> None:
        self.recipe, self.tile = recipe, recipe.serving.tile
        self.table_rows = {name: table.rows + 2 if table.rows else _TABLE_ROWS for name, table in recipe.tables.items()}
        torch.manual_seed(0)
        ranker = build_model(recipe, tier, self.table_rows).eval()
        if not isinstance(ranker, HyFormer):
            raise ValueError(f"tier {tier!r} is {recipe.tiers[tier].model}; the model split by hand is hyformer")
        self._export(ranker)

    def _export(self, ranker: HyFormer) -> None:
        rows = example_inputs(self.recipe, self.table_rows, 12)
        self.graphs = SplitGraphs.of(Probability(ranker).eval(), rows, SIDES)
        item_names = self.graphs.parts.item_inputs
        tiles = [rows[name].unflatten(0, (3, 4)) for name in item_names]
        with torch.no_grad(), quiet_export():
            hand_user = HandUser(ranker).eval()
            hand_names = ("user_ids", "user_dense", "sequence_ids")
            cut = hand_user(*(rows[name][:2] for name in hand_names))
            self.cut_names = [f"cut_{i}" for i in range(len(cut))]
            self.hand_user = Graph.of(
                export_onnx(hand_user, [rows[n][:2] for n in hand_names], [{0: "B"}] * 3, hand_names, self.cut_names)
            )
            self.hand_item = Graph.of(
                export_onnx(
                    HandItem(ranker).eval(),
                    [*tiles, torch.tensor([0, 1, 1]), *cut],
                    [*[{0: "C", 1: "P"}] * len(tiles), {0: "C"}, *[{0: "B"}] * len(cut)],
                    [*item_names, "user_of_tile", *self.cut_names],
                    ["scores"],
                )
            )

    def on(self, candidates: int) -> dict[str, Callable[[], object]]:
        """All contenders on one request of `candidates` candidates; they are checked to agree first."""
        parts, graphs = self.graphs.parts, self.graphs
        users = example_inputs(self.recipe, self.table_rows, 1, seed=1)
        items = example_inputs(self.recipe, self.table_rows, candidates, seed=2)
        user = {name: users[name] for name in parts.user_inputs}
        request = Request.of(user, {name: items[name] for name in parts.item_inputs}, self.tile)
        sizes = {"B": 1, "C": len(request.tiled["user_of_tile"]), "P": self.tile}
        products, activations = products_only(graphs.item.model, sizes)
        only = Graph.of(products)
        fixed_state = graphs.user(request.user)

        def by_hand() -> NDArray[np.float32]:
            cut = dict(zip(self.cut_names, self.hand_user.all(request.user), strict=True))
            return self.hand_item({**request.tiled, **cut})

        def compiled() -> NDArray[np.float32]:
            return graphs.item({**request.tiled, "state": graphs.user(request.user)})

        expected = graphs.row(request.flat)
        for scores in (by_hand(), compiled()):
            np.testing.assert_allclose(request.unpad(scores), expected, atol=1e-5)
        return {
            "row-wise": lambda: graphs.row(request.flat),
            "by hand": by_hand,
            "compiled": compiled,
            "compiled item part": lambda: graphs.item({**request.tiled, "state": fixed_state}),
            "its products alone": lambda: only.all(activations),
        }
