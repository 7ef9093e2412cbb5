"""The naive deployment on Triton: the row-wise graph, with the requests of Triton's dynamic batcher as one batch.

The user's features are repeated for each candidate here and not by the client, which would send a megabyte a request.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.serving_peers.peer_model import PeerModel
from triton_ads.serving.engines import OnnxEngine

# N candidates, M rows, K labels

#: The graph, beside model.py.
ROW_GRAPH = "row.onnx"
#: Rows of one run of the graph. Measured on the MovieLens recipe, one thread: 128 to 256 rows take the least time a
#: row in both tiers; at 4,096 a row takes a third more, because activations no longer fit in the caches.
ROWS = 256


class NaiveModel(PeerModel):
    """What Triton loads."""

    def open(self, folder: Path, tier: str) -> None:
        self._engine = OnnxEngine(folder / ROW_GRAPH)

    def score(self, requests: Sequence[tuple[int, NDArray[np.int64]]]) -> list[NDArray[np.float32]]:
        rows: dict[str, list[NDArray[Any]]] = {}
        for user_id, candidates_N in requests:
            for name, array in self.lookup.user(user_id).inputs().items():
                rows.setdefault(name, []).append(np.repeat(array, len(candidates_N), 0))
            for name, array in self.lookup.items(candidates_N).items():
                rows.setdefault(name, []).append(array)
        inputs = {name: np.concatenate(arrays) for name, arrays in rows.items()}
        lengths = [len(candidates_N) for _, candidates_N in requests]
        scores_MK = np.empty((sum(lengths), self.labels), np.float32)
        for start in range(0, len(scores_MK), ROWS):
            run = slice(start, start + ROWS)
            self._engine.run({name: array[run] for name, array in inputs.items()}, scores_MK[run])
        return np.split(scores_MK, np.cumsum(lengths)[:-1])
