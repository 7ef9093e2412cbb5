"""The candidates of a group of requests: looked up in the store in one go, or encoded from what a request sends."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.encoder import FeatureEncoder
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe
from triton_ads.serving import counters as count
from triton_ads.serving.counters import Counters
from triton_ads.serving.store import ItemStore

# N candidates of a request, M of all requests of a group, F id columns, D dense columns, V value columns


class Candidates(Protocol):
    """What a request says of its candidates; features empty where the store's are wanted."""

    @property
    def candidates_N(self) -> NDArray[np.int64]: ...

    @property
    def item_features(self) -> NDArray[np.int64]: ...  # N x F, or none

    @property
    def item_dense(self) -> NDArray[np.float32]: ...  # N x D, or none

    @property
    def item_values(self) -> NDArray[np.float32]: ...  # N x V, or none


class EncodedItems(NamedTuple):
    rows_MF: NDArray[np.int64]
    dense_MD: NDArray[np.float32]
    values_MV: NDArray[np.float32]  # NaN where nobody says


class ItemEncoder:
    """Turns the candidates of many requests into rows and floats, one after the other."""

    def __init__(self, recipe: Recipe, tables: Tables, store: ItemStore, counters: Counters) -> None:
        self._encoder = FeatureEncoder(recipe, tables, "item")
        self._store, self._counters = store, counters
        self.id_columns, self.dense_columns = len(recipe.id_columns("item")), len(recipe.dense_columns("item"))
        self.value_columns = len(recipe.value_columns())

    def encode(self, requests: Sequence[Candidates]) -> EncodedItems:
        """Rows, dense columns and values of all candidates, request after request."""
        position_M, known_M = self._store.find(_joined([r.candidates_N for r in requests]))
        rows_MF = self._store.rows(position_M, known_M).astype(np.int64)
        dense_MD = self._store.dense(position_M, known_M)
        values_MV = self._store.values(position_M, known_M)
        end = 0
        for request in requests:
            start, end = end, end + len(request.candidates_N)
            if len(request.item_features):
                encoded = self._encoder.encode(request.item_features.reshape(-1, self.id_columns))
                self._counters.add(count.OOV, "item", amount=encoded.oov)
                rows_MF[start:end] = encoded.rows
            else:
                self._counters.add(count.UNKNOWN_ITEMS, amount=end - start - int(known_M[start:end].sum()))
            if len(request.item_dense):
                dense_MD[start:end] = request.item_dense.reshape(-1, self.dense_columns)
            if len(request.item_values):
                values_MV[start:end] = request.item_values.reshape(-1, self.value_columns)
        return EncodedItems(rows_MF, dense_MD, values_MV)


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
