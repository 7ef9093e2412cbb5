"""A log: what a data set knows, in raw ids and in time order, whatever files it came from.

A data set's module (`movielens.py`) makes a Log; everything after it (split, vocabularies, examples, store) reads a
Log only. Every event is an example as well: the user met the item at that time, and the labels say what came of it.
"""

# Legend: n events, U users, I items, W ids of a multi-valued column.

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Log:
    """All arrays of raw ids are int64; MISSING (-1) where there is no value."""

    user_ids: Ids  # [U], sorted
    item_ids: Ids  # [I], sorted
    titles: dict[int, str]  # item id -> what to show a person

    time: Ids  # [n] unix seconds, never falling
    user: NDArray[np.int32]  # [n] position in user_ids
    item: NDArray[np.int32]  # [n] position in item_ids
    labels: dict[str, NDArray[np.float32]]  # [n] each, 0 or 1

    # The columns that a recipe's features can name.
    user_columns: dict[str, Ids]  # [U, W] each
    item_columns: dict[str, Ids]  # [I, W] each
    context_columns: dict[str, Ids]  # [n, W] each
    # What a recipe's sequences can name: which events a sequence holds, and the ids of an event.
    sequences: dict[str, NDArray[np.bool_]]  # [n] each
    event_fields: dict[str, Ids]  # [n] each; `gap` is not among them, it depends on the example
    # What dense features can name beside `activity` and `popularity` (columns.py); finite.
    user_dense: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # [U] each
    item_dense: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # [I] each
    context_dense: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # [n] each
    # What a recipe's features of kind `value` can name: float32, NaN where an item has none.
    item_values: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # [I] each
    # Item id -> what an ad says of itself, for generative targeting; its title where there is nothing.
    texts: dict[int, str] = field(default_factory=dict)
    # What only the maker of the data knows of each event, to judge predictions by; never shown to a model.
    truth: dict[str, NDArray[np.float32]] = field(default_factory=dict)  # [n] each

    def __len__(self) -> int:
        return len(self.time)
