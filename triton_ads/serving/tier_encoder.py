"""The user part of a tier: one run for the users of many requests."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.recipe import Recipe
from triton_ads.serving import counters as count
from triton_ads.serving.buckets import smallest
from triton_ads.serving.counters import Counters
from triton_ads.serving.engines import Engine, OnnxEngine
from triton_ads.serving.release import Release
from triton_ads.serving.users import UserRow

# B users, F id columns and D dense columns of user and context, L ids of all sequences, Z floats of state


class TierEncoder:
    """The user part of one tier, with its buffers. Not safe to use from two threads at once."""

    def __init__(self, tier: str, engine: Engine, recipe: Recipe, state_size: int, counters: Counters) -> None:
        self._tier, self._engine, self._counters = tier, engine, counters
        largest = recipe.serving.max_batch_requests
        self._sizes = [2**i for i in range((largest - 1).bit_length())] + [largest]
        self._rows_BF = np.zeros((largest, len(recipe.id_columns("user", "context"))), np.int64)
        self._floats_BD = np.zeros((largest, len(recipe.dense_columns("user", "context"))), np.float32)
        self._sequences_BL = np.zeros((largest, recipe.sequence_width), np.int64)
        self._inputs: dict[str, NDArray[Any]] = {
            "user_ids": self._rows_BF,
            "user_dense": self._floats_BD,
            "sequence_ids": self._sequences_BL,
        }
        self._states_BZ = np.zeros((largest, state_size), np.float32)

    def encode(self, users: Sequence[UserRow]) -> NDArray[np.float32]:
        """The cut values of `users`, at most serving.max_batch_requests.

        Returns:
            float32 [B, Z], without headers; a view that the next run overwrites.
        """
        n = len(users)
        np.concatenate([user.rows_1F for user in users], out=self._rows_BF[:n])
        np.concatenate([user.floats_1D for user in users], out=self._floats_BD[:n])
        np.concatenate([user.sequences_1L for user in users], out=self._sequences_BL[:n])
        run = self._sizes[smallest(self._sizes, n)] if self._engine.padded else n
        start = time.perf_counter()
        self._engine.run({name: array[:run] for name, array in self._inputs.items()}, self._states_BZ[:run])
        self._counters.add(count.RUNS, self._tier)
        self._counters.add(count.ENGINE_SECONDS, self._tier, amount=time.perf_counter() - start)
        return self._states_BZ[:n]

    def warm_up(self) -> None:
        """Run every batch size of which there is a bucket once."""
        nobody = UserRow(self._rows_BF[:1].copy(), self._floats_BD[:1].copy(), self._sequences_BL[:1].copy())
        for size in self._sizes:
            self.encode([nobody] * size)


def tier_encoders(release: Release, counters: Counters) -> list[TierEncoder]:
    """The encoders of a release, in the order of its tiers."""
    recipe, tiers = release.recipe, release.manifest.tiers
    return [
        TierEncoder(
            tier,
            OnnxEngine(release.graph(tier, "user"), recipe.serving.threads),
            recipe,
            tiers[tier].state_size,
            counters,
        )
        for tier in release.tiers
    ]
