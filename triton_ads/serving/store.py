"""The local store: encoded features of the users and items that the build knew, memory-mapped.

    store/users/  ids int64 [n] increasing   rows int32 [n, Fu]   dense float32 [n, Du]
                  sequences int32 [n, L]     history int32 [n]    events known of the user
    store/items/  ids int64 [n] increasing   rows int32 [n, Fi]   dense float32 [n, Di]
                  values float32 [n, V]     NaN where an item has none

Rows are what the release's vocabularies give, so that a look-up needs no encoding. Processes share the pages.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.ids import OOV
from triton_ads.recipe import Recipe

# n known users or items, M candidates, F id columns, D dense columns, V value columns, L ids of all sequences


class StoreError(ValueError):
    """A store that does not fit its recipe; the message names the file, what was found and what is needed."""


def load_array(path: Path, dtype: type[Any], *shape: int | None) -> NDArray[Any]:
    """Memory-map an array; a None in `shape` is any length."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise StoreError(f"{path}: {error}") from None
    wanted = tuple(f if s is None else s for s, f in zip(shape, array.shape, strict=False))
    if array.dtype != dtype or array.ndim != len(shape) or array.shape != wanted:
        needed = ["any" if s is None else s for s in shape]
        raise StoreError(
            f"{path}: {array.dtype} of shape {list(array.shape)} found, {np.dtype(dtype)} of shape {needed} needed"
        )
    # A plain view: a memmap object costs microseconds in each of the small operations of a look-up.
    return array.view(np.ndarray)


def load_ids(path: Path) -> NDArray[np.int64]:
    ids: NDArray[np.int64] = load_array(path, np.int64, None)
    if not np.all(ids[1:] > ids[:-1]):
        raise StoreError(f"{path}: ids must be strictly increasing")
    return ids


class UserStore:
    """The known users."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.ids = load_ids(folder / "ids.npy")
        n = len(self.ids)
        self.rows_nF = load_array(folder / "rows.npy", np.int32, n, len(recipe.id_columns("user")))
        self.dense_nD = load_array(folder / "dense.npy", np.float32, n, len(recipe.dense_columns("user")))
        self.sequences_nL = load_array(folder / "sequences.npy", np.int32, n, recipe.sequence_width)
        self.history_n = load_array(folder / "history.npy", np.int32, n)

    def find(self, user_id: int) -> int | None:
        """The position of a user; None when it is unknown."""
        position = int(self.ids.searchsorted(user_id))
        return position if position < len(self.ids) and self.ids[position] == user_id else None


class ItemStore:
    """The known items."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.ids = load_ids(folder / "ids.npy")
        n = len(self.ids)
        self.rows_nF = load_array(folder / "rows.npy", np.int32, n, len(recipe.id_columns("item")))
        self.dense_nD = load_array(folder / "dense.npy", np.float32, n, len(recipe.dense_columns("item")))
        self.values_nV = load_array(folder / "values.npy", np.float32, n, len(recipe.value_columns()))

    def find(self, item_ids_M: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Positions of items, and which of them are known; the position of an unknown one means nothing."""
        if not len(self.ids):
            return np.zeros(len(item_ids_M), np.intp), np.zeros(len(item_ids_M), np.bool_)
        position_M = self.ids.searchsorted(item_ids_M)
        np.minimum(position_M, len(self.ids) - 1, out=position_M)
        return position_M, self.ids[position_M] == item_ids_M

    def rows(self, position_M: NDArray[np.intp], known_M: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Rows int32 [M, F]; OOV in every column of an unknown item."""
        rows_MF = self.rows_nF.take(position_M, axis=0) if len(self.ids) else self._empty(position_M, self.rows_nF)
        if not known_M.all():
            rows_MF[~known_M] = OOV
        return rows_MF

    def dense(self, position_M: NDArray[np.intp], known_M: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Dense columns float32 [M, D]; zeros for an unknown item."""
        dense_MD = self.dense_nD.take(position_M, axis=0) if len(self.ids) else self._empty(position_M, self.dense_nD)
        if not known_M.all():
            dense_MD[~known_M] = 0
        return dense_MD

    def values(self, position_M: NDArray[np.intp], known_M: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Values float32 [M, V]; NaN for an unknown item, of which nobody knows a bid."""
        values_MV = (
            self.values_nV.take(position_M, axis=0) if len(self.ids) else self._empty(position_M, self.values_nV)
        )
        if not known_M.all():
            values_MV[~known_M] = np.nan
        return values_MV

    @staticmethod
    def _empty(position_M: NDArray[np.intp], like: NDArray[Any]) -> NDArray[Any]:
        return np.zeros((len(position_M), like.shape[1]), like.dtype)
