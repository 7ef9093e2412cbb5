"""What `rank` must answer, computed the slow and obvious way: one request, one candidate after the other."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.tiny_release import rows_of, tiny_scores
from triton_ads.features.ids import OOV, raw_id
from triton_ads.recipe import Recipe, Side

# N candidates, F id columns, D dense columns, L ids of all sequences, K labels


@dataclass
class Expected:
    """A ranking in plain types."""

    ids: list[int]
    scores_NK: NDArray[np.float32]
    positions: list[int]
    rank_values: list[float]


class RankReference:
    """Reads the store of a tiny release into dictionaries and follows docs/wire.md line by line."""

    def __init__(self, release: Path, recipe: Recipe) -> None:
        self.recipe = recipe
        self.users = _read(release / "store" / "users", "rows", "dense", "sequences", "history")
        self.items = _read(release / "store" / "items", "rows", "dense", "values")

    def rank(self, inputs: dict[str, NDArray[Any]], tier: str) -> Expected:
        """The answer of `tier` to the tensors of a valid request."""
        given = {name: array[0] for name, array in inputs.items()}
        user_ids_F, user_dense_D = self.user(given)
        item_ids_NF, item_dense_ND = self.item(given)
        scores_NK = tiny_scores(
            self.recipe, tier, user_ids_F, user_dense_D, self.sequences(given), item_ids_NF, item_dense_ND
        )
        values = [self.rank_value(given, i, scores_NK[i], item_dense_ND[i]) for i in range(len(scores_NK))]
        order = sorted(range(len(scores_NK)), key=lambda i: (-values[i], i))
        ids = [int(given["candidates"][i]) for i in order]
        return Expected(ids, scores_NK[order], order, [values[i] for i in order])

    def rank_value(
        self, given: dict[str, NDArray[Any]], i: int, scores_K: NDArray[np.float32], dense_D: NDArray[np.float32]
    ) -> float:
        """Python's own value of the rule for candidate i; the lowest float32 where it has none."""
        known = self.items.get(int(given["candidates"][i]))
        sent = given["item_values"]
        names = {c.feature: float(d) for c, d in zip(self.recipe.dense_columns("item"), dense_D, strict=True)}
        for j, column in enumerate(self.recipe.value_columns()):
            width = len(self.recipe.value_columns())
            names[column.feature] = (
                float(sent[i * width + j]) if len(sent) else known["values"][j] if known else math.nan
            )
        names |= {label: float(p) for label, p in zip(self.recipe.labels, scores_K, strict=True)}
        functions = {name: getattr(math, name) for name in ("log", "log1p", "exp", "sqrt")}
        functions |= {"min": min, "max": max, "clip": lambda x, low, high: min(max(x, low), high)}
        try:
            value = float(np.float32(eval(self.recipe.rank_by or self.recipe.labels[0], functions, names)))
        except (ArithmeticError, ValueError, TypeError):
            value = math.nan
        return value if math.isfinite(value) else float(np.finfo(np.float32).min)

    def user(self, given: dict[str, NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        known = self.users.get(int(given["user_id"][0]))
        if len(given["user_features"]):
            ids = self._encode(given["user_features"], "user")
        else:
            ids = list(known["rows"]) if known else [OOV] * len(self.recipe.id_columns("user"))
        context = list(given["context_features"]) or [-1] * len(self.recipe.id_columns("context"))
        rows = self._encode(context, "context")
        if rows[0] < 2:  # the tiny recipe's first context column is the scenario
            rows[0] = int(rows_of(self.recipe, "daypart", np.array([raw_id("evening")]))[0])
        dense = list(given["user_dense"]) or (list(known["dense"]) if known else [0.0, 0.0])
        dense += list(given["context_dense"]) or [0.0]
        return np.array(ids + rows, np.int64), np.array(dense, np.float32)

    def sequences(self, given: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
        known = self.users.get(int(given["user_id"][0]))
        if not len(given["sequence_lengths"]):
            return np.array(known["sequences"] if known else [0] * self.recipe.sequence_width, np.int64)
        raw, rows = list(given["sequences"]), []
        for sequence, sent in zip(self.recipe.sequences, given["sequence_lengths"], strict=True):
            events = [[raw.pop(0) for _ in sequence.fields] for _ in range(sent)]
            for event in events[: sequence.length]:
                rows += [
                    int(rows_of(self.recipe, f.table, np.array([v]))[0])
                    for f, v in zip(sequence.fields, event, strict=True)
                ]
            rows += [0] * (max(0, sequence.length - sent) * len(sequence.fields))
        return np.array(rows, np.int64)

    def item(self, given: dict[str, NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        width, rows, dense = len(self.recipe.id_columns("item")), [], []
        for i, candidate in enumerate(given["candidates"]):
            known = self.items.get(int(candidate))
            if len(given["item_features"]):
                rows.append(self._encode(given["item_features"][i * width : (i + 1) * width], "item"))
            else:
                rows.append(list(known["rows"]) if known else [OOV] * width)
            if len(given["item_dense"]):
                dense.append([given["item_dense"][i]])  # the tiny recipe has one dense item column
            else:
                dense.append(list(known["dense"]) if known else [0.0])
        return np.array(rows, np.int64).reshape(-1, width), np.array(dense, np.float32).reshape(-1, 1)

    def _encode(self, raw: Any, side: Side) -> list[int]:
        columns = self.recipe.id_columns(side)
        return [int(rows_of(self.recipe, str(c.table), np.array([v]))[0]) for c, v in zip(columns, raw, strict=True)]


def _read(folder: Path, *names: str) -> dict[int, dict[str, Any]]:
    arrays = {name: np.load(folder / f"{name}.npy").tolist() for name in names}
    ids = np.load(folder / "ids.npy").tolist()
    return {id_: {name: arrays[name][i] for name in names} for i, id_ in enumerate(ids)}
