"""Parquet files as a Log: every column that the recipe names, found by its name.

context features, labels, histories     columns of the events
user features, item features            columns of users and items; where there is no such file, of the events, in
                                        which they must be the same for all events of a user or item
sequence fields                         columns of the events, else of the item that an event is about
activity, popularity (dense), gap       made from the events as for every source: no column is read
"""

# Legend: n events, N users or items, R rows of a table, W ids of a multi-valued column.

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.columns import COUNTED
from triton_ads.data.download import DataError
from triton_ads.data.log import Log
from triton_ads.data.parquet_entities import Entities, Kind
from triton_ads.data.parquet_files import files_of
from triton_ads.data.parquet_table import ParquetTable, column_names
from triton_ads.data.past import GAP
from triton_ads.recipe import Recipe, Side
from triton_ads.recipe.data import Parquet
from triton_ads.recipe.inputs import Feature

_IDS, _DENSE, _VALUES = ("id", "ids"), ("dense",), ("value",)


def read_log(recipe: Recipe, downloads: Path) -> Log:
    """The log of the recipe's Parquet files.

    Raises:
        DataError: a file or a column is missing, or holds what it must not; the message names it.
    """
    assert isinstance(recipe.data, Parquet)
    return _Reader(recipe, recipe.data).log()


class _Reader:
    """Knows which columns lie where. The events are read at once, users and items when the log is made."""

    def __init__(self, recipe: Recipe, data: Parquet) -> None:
        self.recipe, self.data = recipe, data
        files = files_of(data.events, recipe.folder, "data.events")
        there = column_names(files[0])
        self.fields = list(dict.fromkeys(f.name for s in recipe.sequences for f in s.fields if f.name != GAP))
        self.event_fields = [name for name in self.fields if data.items is None or self.column(name) in there]
        columns = [data.user, data.item, data.time, *data.histories.values()]
        columns += [self.column(name) for name in (*recipe.labels, *self.event_fields)]
        columns += self.feature_columns("context")
        columns += self.feature_columns("user") if data.users is None else []
        columns += self.item_columns() if data.items is None else []
        self.events = ParquetTable.read(files, columns)
        if not len(self.events):
            raise DataError(f"{files[0]}: no row found; each is an example, and some are needed")

    def log(self) -> Log:
        events, data = self.events, self.data
        users = self.entities("user", data.users, data.user, self.feature_columns("user"))
        items = self.entities("item", data.items, data.item, self.item_columns())
        user_n = users.positions(events, data.user, events.keys(data.user))
        item_n = items.positions(events, data.item, events.keys(data.item))
        time_n = events.times(data.time)
        # By time; ties by user and item, so that the order depends on the files' as little as may be.
        order = np.lexsort((item_n, user_n, time_n))
        return Log(
            user_ids=users.ids,
            item_ids=items.ids,
            titles=self.titles(items),
            time=time_n[order],
            user=user_n[order],
            item=item_n[order],
            labels={name: self.label(name)[order] for name in self.recipe.labels},
            user_columns=self.features_of(users, "user", _IDS),
            item_columns=self.features_of(items, "item", _IDS),
            context_columns={name: values[order] for name, values in self.context(_IDS).items()},
            sequences={s.name: self.history(s.name)[order] for s in self.recipe.sequences},
            event_fields={name: self.event_field(name, items, item_n)[order] for name in self.fields},
            user_dense=self.features_of(users, "user", _DENSE),
            item_dense=self.features_of(items, "item", _DENSE),
            context_dense={name: values[order] for name, values in self.context(_DENSE).items()},
            item_values=self.features_of(items, "item", _VALUES),
        )

    def column(self, name: str) -> str:
        """The column of a feature, label or field."""
        return self.data.columns.get(name, name)

    def features(self, side: Side, kinds: tuple[str, ...] = (*_IDS, *_DENSE, *_VALUES)) -> list[Feature]:
        """Features of a side that have a column."""
        return [
            f
            for f in self.recipe.features
            if f.side == side and f.kind in kinds and (f.kind != "dense" or f.name != COUNTED.get(side))
        ]

    def feature_columns(self, side: Side) -> list[str]:
        return [self.column(feature.name) for feature in self.features(side)]

    def item_columns(self) -> list[str]:
        """Features, fields that no event has itself, the title."""
        fields = [self.column(name) for name in self.fields if name not in self.event_fields]
        return [*self.feature_columns("item"), *fields, *([self.data.title] if self.data.title else [])]

    def entities(self, kind: Kind, path: str | None, key: str, columns: list[str]) -> Entities:
        if path is None:
            return Entities(kind, self.events, key, unique=False)
        files = files_of(path, self.recipe.folder, f"data.{kind}s")
        return Entities(kind, ParquetTable.read(files, [key, *columns]), key, unique=True)

    def features_of(self, entities: Entities, side: Side, kinds: tuple[str, ...]) -> dict[str, NDArray[Any]]:
        return {
            f.name: entities.pick(self.column(f.name), self.values(entities.table, f))
            for f in self.features(side, kinds)
        }

    def context(self, kinds: tuple[str, ...]) -> dict[str, NDArray[Any]]:
        return {f.name: self.values(self.events, f) for f in self.features("context", kinds)}

    def values(self, table: ParquetTable, feature: Feature) -> NDArray[Any]:
        """A feature of every row: ids int64 [R, W], others float32 [R]."""
        column = self.column(feature.name)
        if feature.kind == "ids":
            return table.id_lists(column, feature.length or 1)
        if feature.kind == "id":
            return table.ids(column)[:, None]
        return table.floats(column) if feature.kind == "dense" else table.values(column)

    def label(self, name: str) -> NDArray[np.float32]:
        return self.events.flags(self.column(name)).astype(np.float32)

    def history(self, sequence: str) -> NDArray[np.bool_]:
        """Which events a sequence holds."""
        if sequence not in self.data.histories:
            return np.ones(len(self.events), dtype=np.bool_)
        return self.events.flags(self.data.histories[sequence])

    def event_field(self, name: str, items: Entities, item_n: NDArray[np.int32]) -> NDArray[np.int64]:
        column = self.column(name)
        if name in self.event_fields:
            return self.events.ids(column)
        return items.pick(column, items.table.ids(column))[item_n]

    def titles(self, items: Entities) -> dict[int, str]:
        """The title of every item; its id as it stands in the file where it has none."""
        keys = items.texts(self.data.item)
        titles = items.texts(self.data.title) if self.data.title else keys
        return {item: str(t or k) for item, t, k in zip(items.ids.tolist(), titles, keys, strict=True)}
