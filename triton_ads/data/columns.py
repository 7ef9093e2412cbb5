"""What the recipe names, found in a Log: the raw id and dense columns of its features, the fields of its sequences."""

# Legend: n events, U users, I items, F id columns, D dense columns, V value columns, K labels.

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.download import DataError
from triton_ads.data.log import Log
from triton_ads.data.past import GAP, earlier, log_scaled
from triton_ads.features.ids import MISSING
from triton_ads.recipe import Recipe, Side

T = TypeVar("T")


def raw_columns(recipe: Recipe, log: Log, side: Side) -> NDArray[np.int64]:
    """Raw ids `int64 [U, n or I; F]` of `recipe.id_columns(side)`: a row for each user, event (context) or item.

    A multi-valued feature of the recipe takes the first `length` values of the log's column.

    Raises:
        DataError: the log has no such column.
    """
    columns = {"user": log.user_columns, "context": log.context_columns, "item": log.item_columns}[side]
    size = {"user": len(log.user_ids), "context": len(log), "item": len(log.item_ids)}[side]
    raw = np.full((size, len(recipe.id_columns(side))), MISSING, dtype=np.int64)
    for i, column in enumerate(recipe.id_columns(side)):
        values = _find("features", column.feature, columns, f"id column of side {side}")
        if column.slot < values.shape[1]:
            raw[:, i] = values[:, column.slot]
    return raw


def dense_columns(recipe: Recipe, log: Log, *sides: Side) -> NDArray[np.float32]:
    """Dense values `float32 [n, D]` of every example, of `recipe.dense_columns(*sides)`.

    `activity` (user): events of the user strictly before the example; `popularity` (item): events of the item
    strictly before it; both through `log_scaled`. Any other is a column of the log, as it is.

    Raises:
        DataError: the log has no such column.
    """
    values = [_dense(log, side, c.feature)[0] for side in sides for c in recipe.dense_columns(side)]
    return np.stack(values, axis=1) if values else np.zeros((len(log), 0), dtype=np.float32)


def final_dense_columns(recipe: Recipe, log: Log, side: Side) -> NDArray[np.float32]:
    """Dense values `float32 [U or I, D]` of every user or item when the log has ended: all its events count."""
    values = [_dense(log, side, c.feature)[1] for c in recipe.dense_columns(side)]
    size = len(log.user_ids) if side == "user" else len(log.item_ids)
    return np.stack(values, axis=1) if values else np.zeros((size, 0), dtype=np.float32)


#: Dense features that are counted, not read: the events of a user and of an item.
COUNTED: dict[Side, str] = {"user": "activity", "item": "popularity"}


def _dense(log: Log, side: Side, feature: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A dense feature of each example, and of each user or item when the log has ended (of each event: context)."""
    if side == "context":
        known, group, size = log.context_dense, np.arange(len(log), dtype=np.int32), len(log)
    elif side == "user":
        known, group, size = log.user_dense, log.user, len(log.user_ids)
    else:
        known, group, size = log.item_dense, log.item, len(log.item_ids)
    if feature == COUNTED.get(side):
        return log_scaled(earlier(group, log.time).count), log_scaled(np.bincount(group, minlength=size))
    counted = {COUNTED[side]: np.empty(0, dtype=np.float32)} if side in COUNTED else {}
    final = _find("features", feature, {**counted, **known}, f"dense column of side {side}")
    return final[group], final


def value_columns(recipe: Recipe, log: Log) -> NDArray[np.float32]:
    """Values `float32 [I, V]` of every item, of `recipe.value_columns()`; NaN where an item has none.

    Raises:
        DataError: the log has no such column, or one that holds infinity.
    """
    values_IV = np.empty((len(log.item_ids), len(recipe.value_columns())), dtype=np.float32)
    for i, column in enumerate(recipe.value_columns()):
        values_IV[:, i] = _find("features", column.feature, log.item_values, "value column of side item")
        infinite_I = np.isinf(values_IV[:, i])
        if infinite_I.any():
            item = log.item_ids[int(infinite_I.argmax())]
            raise DataError(f"features: value {column.feature!r} of item {item} is infinite; a number is allowed")
    return values_IV


def label_columns(recipe: Recipe, log: Log) -> NDArray[np.float32]:
    """Labels `float32 [n, K]`, 0 or 1."""
    return np.stack([_find("labels", name, log.labels, "label") for name in recipe.labels], axis=1)


def sequence_events(log: Log, sequence: str) -> NDArray[np.bool_]:
    """bool [n]: which events of the log the sequence holds."""
    return _find("sequences", sequence, log.sequences, "sequence")


def event_field(log: Log, field: str) -> NDArray[np.int64]:
    """Raw ids `int64 [n]` of a field of every event; MISSING for the gap, which only an example gives."""
    missing = np.full(len(log), MISSING, dtype=np.int64)
    return _find("sequences.fields", field, {**log.event_fields, GAP: missing}, "event field")


def _find(where: str, name: str, known: Mapping[str, T], what: str) -> T:
    if name not in known:
        raise DataError(f"{where}: the data has no {what} {name!r}; allowed: {', '.join(known) or 'none'}")
    return known[name]
