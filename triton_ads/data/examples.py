"""Examples on disk, and batches of them in the form in which models read them.

What belongs to a user, an item or an event is stored once and gathered per batch: an example is its time, the
positions of its user and item, and a window in each sequence. `names` says what each array is; every array is one .npy
file and is memory-mapped.
"""

# Legend: n examples, M rows of a batch, U users, I items, F id columns (u user, c context, i item), D dense columns,
#         K labels, L ids of all sequences.

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.download import DataError
from triton_ads.data.past import GAP, History
from triton_ads.data.split import Part, TimeSplit
from triton_ads.recipe import Recipe, Sequence


class Batch(NamedTuple):
    """Arguments of a model's forward by name, without the kinds that the recipe has not; and what came of it."""

    inputs: dict[str, NDArray[np.int64] | NDArray[np.float32]]
    labels: NDArray[np.float32]  # [M, K]


@dataclass(frozen=True)
class Examples:
    """All examples of a data set, in time order; a part of the split is a range of positions."""

    recipe: Recipe
    split: TimeSplit
    arrays: dict[str, NDArray]  # see `names`

    @staticmethod
    def names(recipe: Recipe) -> dict[str, str]:
        """Name of each array -> what it is."""
        sequences: dict[str, str] = {}
        for s in recipe.sequences:
            sequences |= {
                f"{s.name}.rows": "int32 [events, fields], user by user, oldest first; PAD in a gap field",
                f"{s.name}.time": "int64 [events], unix seconds",
                f"{s.name}.gap_rows": "int64 [buckets], row of each gap bucket; empty where no field is a gap",
                f"{s.name}.first": "int32 [n], first event of the user",
                f"{s.name}.end": "int32 [n], first event of the user that is not strictly earlier than the example",
            }
        return {
            "time": "int64 [n], unix seconds, never falling",
            "user": "int32 [n], row of user_rows",
            "item": "int32 [n], row of item_rows",
            "user_rows": "int32 [U, Fu]",
            "context_rows": "int32 [n, Fc]",
            "item_rows": "int32 [I, Fi]",
            "user_dense": "float32 [n, Du + Dc]",
            "item_dense": "float32 [n, Di]",
            "labels": "float32 [n, K]",
            **sequences,
        }

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in self.names(self.recipe):
            np.save(folder / f"{name}.npy", self.arrays[name], allow_pickle=False)
        (folder / "split.json").write_text(json.dumps(asdict(self.split), indent=1) + "\n")

    @classmethod
    def load(cls, recipe: Recipe, folder: Path) -> Self:
        """Memory-map what `save` wrote.

        Raises:
            DataError: a file is missing or broken.
        """
        try:
            split = TimeSplit(**json.loads((folder / "split.json").read_text()))
            arrays: dict[str, NDArray] = {
                # A plain view: what is gathered from a memmap would be one by type.
                name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)
                for name in cls.names(recipe)
            }
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{folder}: no examples of recipe {recipe.name}: {error}") from None
        return cls(recipe, split, arrays)

    def part(self, part: Part) -> NDArray[np.int64]:
        """Positions of the examples of a part, in time order."""
        return np.arange(*self.split.range(part))

    def batch(self, positions_M: NDArray[np.int64]) -> Batch:
        """The examples at `positions_M`, in that order."""
        a = self.arrays
        user_M, item_M, now_M = a["user"][positions_M], a["item"][positions_M], a["time"][positions_M]
        inputs: dict[str, NDArray] = {
            "user_ids": np.concatenate(
                [a["user_rows"][user_M], a["context_rows"][positions_M]], axis=1, dtype=np.int64
            ),
            "item_ids": a["item_rows"][item_M].astype(np.int64),
        }
        for name in ("user_dense", "item_dense"):
            if a[name].shape[1]:
                inputs[name] = a[name][positions_M]
        if self.recipe.sequences:
            inputs["sequence_ids"] = np.concatenate(
                [
                    self._history(s)
                    .latest(a[f"{s.name}.first"][positions_M], a[f"{s.name}.end"][positions_M], now_M, s.length)
                    .reshape(len(positions_M), -1)
                    for s in self.recipe.sequences
                ],
                axis=1,
            )
        return Batch(inputs, a["labels"][positions_M])

    def _history(self, sequence: Sequence) -> History:
        fields = [field.name for field in sequence.fields]
        rows, time, gap_rows = (self.arrays[f"{sequence.name}.{part}"] for part in ("rows", "time", "gap_rows"))
        return History(rows, time, fields.index(GAP) if GAP in fields else None, gap_rows)
