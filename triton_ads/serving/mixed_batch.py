"""Mixed batching: one run of a tier's item part for the candidates of many requests."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from triton_ads.recipe import Recipe
from triton_ads.serving import counters as count
from triton_ads.serving.buckets import Bucket, Miss, smallest
from triton_ads.serving.counters import Counters
from triton_ads.serving.engines import Engine
from triton_ads.serving.tiles import Run, pack, pack_users, plan, tile_size, unpack

# B requests, M candidates of all of them, C tiles, P candidates in a tile, F id columns, D dense columns,
# Z floats of state, K labels


class TierScorer:
    """The item part of one tier, with its buckets. Not safe to use from two threads at once: it owns its buffers."""

    def __init__(self, tier: str, engine: Engine, recipe: Recipe, state_size: int, counters: Counters) -> None:
        serving = recipe.serving
        columns = (len(recipe.id_columns("item")), len(recipe.dense_columns("item")), len(recipe.labels))
        self._tier, self._engine, self._counters = tier, engine, counters
        self._tile = serving.tile
        self._sizes = serving.buckets
        self._buckets = [Bucket(tiles, serving.tile, *columns) for tiles in serving.buckets]
        self._labels = len(recipe.labels)
        self._states_BZ = np.zeros((serving.max_batch_requests, state_size), np.float32)

    def score(
        self,
        states_BZ: NDArray[np.float32],
        lengths: Sequence[int],
        item_ids_MF: NDArray[np.int64],
        item_dense_MD: NDArray[np.float32],
    ) -> NDArray[np.float32]:
        """Probabilities of all candidates.

        Args:
            states_BZ: of the requests' users, float32, without headers.
            lengths: candidates of each request, at least one; they sum to M.
            item_ids_MF: rows of the item columns, int64, request after request.
            item_dense_MD: dense item columns, float32.

        Returns:
            float32 [M, K].
        """
        size = self._tile if self._engine.padded else tile_size(lengths, self._tile)
        largest = at_once = self._sizes[-1] * self._tile // size
        if self._engine.padded:
            states_BZ = self._padded(states_BZ)
        else:
            at_once = min(largest, max(1, self._engine.most_rows // size))
        runs = plan(lengths, size, at_once)
        if sum(run.tiles for run in runs) > largest:
            self._counters.add(count.BUCKET_MISSES, self._tier, Miss.OVER_LARGEST)
        scores_MK = np.empty((len(item_ids_MF), self._labels), np.float32)
        for run in runs:
            self._run(run, states_BZ, item_ids_MF, item_dense_MD, scores_MK)
        return scores_MK

    def _padded(self, states_BZ: NDArray[np.float32]) -> NDArray[np.float32]:
        """The buffer of states, which has a fixed shape."""
        self._states_BZ[: len(states_BZ)] = states_BZ
        return self._states_BZ

    def _run(
        self,
        run: Run,
        states_BZ: NDArray[np.float32],
        item_ids_MF: NDArray[np.int64],
        item_dense_MD: NDArray[np.float32],
        scores_MK: NDArray[np.float32],
    ) -> None:
        bucket = self._buckets[smallest(self._sizes, -(-run.tiles * run.size // self._tile))]
        tiles = bucket.tiles if self._engine.padded else run.tiles
        rows = tiles * run.size
        pack(run, item_ids_MF, bucket.item_ids_RF[:rows])
        pack(run, item_dense_MD, bucket.item_dense_RD[:rows])
        pack_users(run, bucket.user_of_tile_C[:tiles])
        inputs = bucket.inputs(tiles, run.size)
        inputs["state"] = states_BZ
        start = time.perf_counter()
        self._engine.run(inputs, bucket.output(tiles, run.size))
        self._count(bucket, rows, run, time.perf_counter() - start)
        unpack(run, bucket.scores_RK, scores_MK)

    def _count(self, bucket: Bucket, rows: int, run: Run, seconds: float) -> None:
        add, tier = self._counters.add, self._tier
        add(count.RUNS, tier)
        add(count.ENGINE_SECONDS, tier, amount=seconds)
        add(count.CANDIDATES, tier, amount=sum(piece.count for piece in run.pieces))
        add(count.SLOTS, tier, amount=rows)
        add(count.BUCKET_HITS, tier, str(bucket.tiles))

    def warm_up(self) -> None:
        """Score what each bucket holds, in runs as requests will have them, so that none pays for first touches."""
        for tiles in self._sizes:
            rows = tiles * self._tile
            item_ids_MF = np.zeros((rows, self._buckets[0].item_ids_RF.shape[1]), np.int64)
            item_dense_MD = np.zeros((rows, self._buckets[0].item_dense_RD.shape[1]), np.float32)
            self.score(self._states_BZ[:1], [rows], item_ids_MF, item_dense_MD)
