"""Features of users and items by id, from a release's store: what every peer does before it scores."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.encoder import FeatureEncoder
from triton_ads.features.ids import MISSING, OOV
from triton_ads.serving.release import Release
from triton_ads.serving.store import ItemStore, UserStore

# N candidates, F id columns, D dense columns, L ids of all sequences


@dataclass(frozen=True)
class UserRow:
    """One user without context, each array with a first axis of 1: the inputs of a model's user side."""

    user_ids_1F: NDArray[np.int64]
    user_dense_1D: NDArray[np.float32]
    sequence_ids_1L: NDArray[np.int64]

    def inputs(self) -> dict[str, NDArray[np.generic]]:
        return {
            "user_ids": self.user_ids_1F,
            "user_dense": self.user_dense_1D,
            "sequence_ids": self.sequence_ids_1L,
        }


class Lookup:
    """The store of a release.

    Args:
        folder: the release.
    """

    def __init__(self, folder: Path) -> None:
        release = Release.open(folder, "store", "vocabularies")
        recipe = release.recipe
        self._users = UserStore(folder / "store" / "users", recipe)
        self._items = ItemStore(folder / "store" / "items", recipe)
        context_F = np.full((1, len(recipe.id_columns("context"))), MISSING, np.int64)
        self._context_1F = FeatureEncoder(recipe, release.tables(), "context").encode(context_F).rows
        self._context_1D = np.zeros((1, len(recipe.dense_columns("context"))), np.float32)

    def user(self, user_id: int) -> UserRow:
        """A user in no particular context; one that is not known has OOV ids, zeros and no history."""
        store, position = self._users, self._users.find(user_id)
        if position is None:
            rows_1F = np.full((1, store.rows_nF.shape[1]), OOV, np.int64)
            dense_1D = np.zeros((1, store.dense_nD.shape[1]), np.float32)
            sequences_1L = np.zeros((1, store.sequences_nL.shape[1]), np.int64)
        else:
            one = slice(position, position + 1)
            rows_1F, dense_1D = store.rows_nF[one].astype(np.int64), store.dense_nD[one]
            sequences_1L = store.sequences_nL[one].astype(np.int64)
        return UserRow(
            np.concatenate([rows_1F, self._context_1F], 1),
            np.concatenate([dense_1D, self._context_1D], 1),
            sequences_1L,
        )

    def items(self, candidates_N: NDArray[np.int64]) -> dict[str, NDArray[np.generic]]:
        """The inputs of a model's item side: int64 [N, F] and float32 [N, D]."""
        position_N, known_N = self._items.find(candidates_N)
        return {
            "item_ids": self._items.rows(position_N, known_N).astype(np.int64),
            "item_dense": self._items.dense(position_N, known_N),
        }
