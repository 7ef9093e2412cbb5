"""The data stage of the build: from a data set to examples, vocabularies and the server's store."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.columns import dense_columns, label_columns, raw_columns
from triton_ads.data.download import DataError
from triton_ads.data.examples import Examples
from triton_ads.data.log import Log
from triton_ads.data.sequences import Windows, build_windows
from triton_ads.data.sources import read_log
from triton_ads.data.split import Part, TimeSplit, split_by_time
from triton_ads.data.store import write_store
from triton_ads.data.truth import save_truth
from triton_ads.data.vocabularies import build_tables
from triton_ads.features.encoder import FeatureEncoder
from triton_ads.recipe import Recipe


def prepare(recipe: Recipe, folder: Path, downloads: Path) -> None:
    """Read the recipe's data, check it, and write into `folder`, the same bytes for the same recipe:

        examples/          Examples of all three parts
        vocabularies/      TABLE.npy, from the training part
        store/             known users and items, for the router
        table_rows.json    {table: rows, PAD and OOV included}
        truth/             what the data's maker alone knows of the examples, where he does (truth.py)

    Args:
        downloads: where published files lie or will lie.

    Raises:
        DataError: the data cannot be fetched or read, is not what it must be, or lacks what the recipe names.
    """
    write(recipe, read_log(recipe, downloads), folder)


def write(recipe: Recipe, log: Log, folder: Path) -> None:
    """What `prepare` does once it has the log."""
    split = split_by_time(log.time, recipe.data)
    labels = label_columns(recipe, log)
    _check_classes(recipe, labels, split)
    tables = build_tables(recipe, log, split)
    windows = {s.name: build_windows(recipe, log, tables, s) for s in recipe.sequences}
    user_rows, context_rows, item_rows = (
        FeatureEncoder(recipe, tables, side).encode(raw_columns(recipe, log, side)).rows.astype(np.int32)
        for side in ("user", "context", "item")
    )
    arrays: dict[str, np.ndarray] = {
        "time": log.time,
        "user": log.user,
        "item": log.item,
        "user_rows": user_rows,
        "context_rows": context_rows,
        "item_rows": item_rows,
        "user_dense": dense_columns(recipe, log, "user", "context"),
        "item_dense": dense_columns(recipe, log, "item"),
        "labels": labels,
        **_window_arrays(windows),
    }
    folder.mkdir(parents=True, exist_ok=True)
    tables.save(folder / "vocabularies")
    (folder / "table_rows.json").write_text(json.dumps(tables.table_rows, indent=1) + "\n")
    Examples(recipe, split, arrays).save(folder / "examples")
    save_truth(log.truth, folder / "truth")
    write_store(recipe, log, user_rows, item_rows, windows, folder / "store")


def _check_classes(recipe: Recipe, labels_nK: NDArray[np.float32], split: TimeSplit) -> None:
    """Nothing can be learned, and no AUC measured, where all examples of a part are alike."""
    parts: tuple[Part, ...] = ("train", "validation", "test")
    for part in parts:
        first, end = split.range(part)
        for name, label_n in zip(recipe.labels, labels_nK[first:end].T, strict=True):
            if label_n.min() == label_n.max():
                raise DataError(
                    f"label {name}: all {end - first} examples of the {part} part are {label_n[0]:g}; both 0 and 1 are "
                    "needed: more examples, or other fractions of the split"
                )


def _window_arrays(windows: dict[str, Windows]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name, w in windows.items():
        arrays |= {
            f"{name}.rows": w.history.rows_EF,
            f"{name}.time": w.history.time_E,
            f"{name}.gap_rows": w.history.gap_rows,
            f"{name}.first": w.example_first,
            f"{name}.end": w.example_end,
        }
    return arrays
