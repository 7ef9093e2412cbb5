"""`bench ranking`: what splitting is worth, on the default ranker, in ONNX Runtime.

Four contenders with the same weights: the row-wise graph as written; the model split by hand; split by the compiler;
and the matrix products of the compiled item part, alone. A time is that of one request: the user part once and the
item part for all candidates, in tiles.
"""

import argparse
import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray

from triton_ads.bench.hand_split import HandItem, HandUser
from triton_ads.bench.products import products_only
from triton_ads.bench.report import Report, Row
from triton_ads.bench.timing import Timings, interleave
from triton_ads.export.onnx_graph import export_onnx
from triton_ads.export.tier import SIDES, Probability
from triton_ads.models import HyFormer, build_model
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe, load_recipe, parse_recipe
from triton_ads.split import split
from triton_ads.split.positional import Positional

_TABLE_ROWS = 1000  # of every vocabulary: what a lookup costs does not depend on training
_CLAIMED = 256  # candidates at which ratios are claimed

Arrays = dict[str, NDArray[np.generic]]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe", type=Path, default=Path("build/recipes/movielens.yaml"), help="default: %(default)s"
    )
    parser.add_argument("--tier", default="high", help="a hyformer tier of the recipe (default: %(default)s)")
    parser.add_argument("--candidates", type=int, nargs="+", default=[64, _CLAIMED, 1000], help="default: %(default)s")
    parser.add_argument("--history", type=int, nargs="+", default=[50, 512], help="events (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="turns of every contender (default: %(default)s)")


def run(args: argparse.Namespace) -> Report:
    report = Report("one request on one thread: milliseconds")
    recipe = load_recipe(args.recipe)
    for length in args.history:
        contenders = _Contenders(_with_history(recipe, length), args.tier)
        for candidates in args.candidates:
            timings = interleave(contenders.on(candidates), _rounds(args.rounds, length, candidates))
            _add(report, timings, length, candidates)
    return report


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


@dataclass(frozen=True)
class _Graph:
    """A graph in a session, called with arrays by name."""

    session: onnxruntime.InferenceSession

    @classmethod
    def of(cls, model: onnx.ModelProto) -> "_Graph":
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return cls(onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]))

    def __call__(self, inputs: Mapping[str, NDArray[np.generic]]) -> list[NDArray[np.float32]]:
        return self.session.run(None, dict(inputs))


class _Contenders:
    """The graphs of all contenders for one recipe, and requests for them."""

    def __init__(self, recipe: Recipe, tier: str) -> None:
        self.recipe, self.tile = recipe, recipe.serving.tile
        self.table_rows = {name: table.rows + 2 if table.rows else _TABLE_ROWS for name, table in recipe.tables.items()}
        torch.manual_seed(0)
        ranker = build_model(recipe, tier, self.table_rows).eval()
        if not isinstance(ranker, HyFormer):
            raise ValueError(f"tier {tier!r} is {recipe.tiers[tier].model}; the model split by hand is hyformer")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            self._export(ranker)

    def _export(self, ranker: HyFormer) -> None:
        model = Probability(ranker).eval()
        rows = example_inputs(self.recipe, self.table_rows, 12)
        names = list(rows)
        self.row = _Graph.of(
            export_onnx(Positional(model, names), list(rows.values()), [{0: "M"}] * len(names), names, ["scores"])
        )

        parts = split(model, {name: tensor[:3] for name, tensor in rows.items()}, SIDES)
        self.user_names, self.item_names = parts.user_inputs, parts.item_inputs
        users = [rows[name][:2] for name in self.user_names]
        tiles = [rows[name].unflatten(0, (3, 4)) for name in self.item_names]
        of_tile = torch.tensor([0, 1, 1])
        free_user, free_item = [{0: "B"}] * len(users), [{0: "C", 1: "P"}] * len(tiles)
        with torch.no_grad():
            state = parts.user(*users)
            self.user = _Graph.of(export_onnx(parts.user, users, free_user, self.user_names, ["state"]))
            self.item_model = export_onnx(
                parts.item,
                [state, of_tile, *tiles],
                [{0: "B"}, {0: "C"}, *free_item],
                ["state", "user_of_tile", *self.item_names],
                ["scores"],
            )
            self.item = _Graph.of(self.item_model)

            hand_user = HandUser(ranker).eval()
            hand_names = ("user_ids", "user_dense", "sequence_ids")
            cut = hand_user(*(rows[name][:2] for name in hand_names))
            self.cut_names = [f"cut_{i}" for i in range(len(cut))]
            self.hand_user = _Graph.of(
                export_onnx(hand_user, [rows[n][:2] for n in hand_names], [{0: "B"}] * 3, hand_names, self.cut_names)
            )
            self.hand_item = _Graph.of(
                export_onnx(
                    HandItem(ranker).eval(),
                    [*tiles, of_tile, *cut],
                    [*free_item, {0: "C"}, *[{0: "B"}] * len(cut)],
                    [*self.item_names, "user_of_tile", *self.cut_names],
                    ["scores"],
                )
            )

    def on(self, candidates: int) -> dict[str, Callable[[], object]]:
        """All contenders on one request of `candidates` candidates; they are checked to agree first."""
        user = {n: t.numpy() for n, t in example_inputs(self.recipe, self.table_rows, 1, seed=1).items()}
        item = {n: t.numpy() for n, t in example_inputs(self.recipe, self.table_rows, candidates, seed=2).items()}
        user = {name: user[name] for name in self.user_names}
        item = {name: item[name] for name in self.item_names}
        tiles = -(-candidates // self.tile)
        user_of_tile = np.zeros(tiles, np.int64)
        tiled: Arrays = {"user_of_tile": user_of_tile}
        for name, value in item.items():
            padded = np.zeros((tiles * self.tile, *value.shape[1:]), value.dtype)
            padded[:candidates] = value
            tiled[name] = padded.reshape(tiles, self.tile, *value.shape[1:])
        flat = {**{name: np.repeat(value, candidates, 0) for name, value in user.items()}, **item}
        products, activations = products_only(self.item_model, {"B": 1, "C": tiles, "P": self.tile})
        only = _Graph.of(products)
        fixed_state = self.user(user)[0]

        def by_hand() -> NDArray[np.float32]:
            cut = dict(zip(self.cut_names, self.hand_user(user), strict=True))
            return self.hand_item({**tiled, **cut})[0]

        def compiled() -> NDArray[np.float32]:
            return self.item({"state": self.user(user)[0], **tiled})[0]

        expected = self.row(flat)[0]
        for scores in (by_hand(), compiled()):
            np.testing.assert_allclose(scores.reshape(tiles * self.tile, -1)[:candidates], expected, atol=1e-5)
        return {
            "row-wise": lambda: self.row(flat),
            "by hand": by_hand,
            "compiled": compiled,
            "compiled item part": lambda: self.item({"state": fixed_state, **tiled}),
            "its products alone": lambda: only(activations),
        }
