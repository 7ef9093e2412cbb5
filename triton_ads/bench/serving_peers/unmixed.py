"""A shared model as written by hand on Triton: user part once, item part per candidate, each request by itself.

The parts are the two graphs of the release, so that what is compared is the service: `bench ranking` measures that
they are as fast as the model split by hand. All candidates are one tile: no padding.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.serving_peers.peer_model import PeerModel
from triton_ads.manifest import Manifest
from triton_ads.recipe.names import RELEASE_LINK
from triton_ads.serving.engines import OnnxEngine

# N candidates, Z floats of state, K labels


class UnmixedModel(PeerModel):
    """What Triton loads."""

    def open(self, folder: Path, tier: str) -> None:
        graphs = folder / RELEASE_LINK / "tiers" / tier
        self._user, self._item = OnnxEngine(graphs / "user.onnx"), OnnxEngine(graphs / "item.onnx")
        manifest = Manifest.load(folder / RELEASE_LINK, verify_files=False)
        self._state_1Z = np.zeros((1, manifest.tiers[tier].state_size), np.float32)
        self._user_of_tile_1 = np.zeros(1, np.int64)

    def score(self, requests: Sequence[tuple[int, NDArray[np.int64]]]) -> list[NDArray[np.float32]]:
        return [self._one(user_id, candidates_N) for user_id, candidates_N in requests]

    def _one(self, user_id: int, candidates_N: NDArray[np.int64]) -> NDArray[np.float32]:
        self._user.run(self.lookup.user(user_id).inputs(), self._state_1Z)
        tile = {name: array[None] for name, array in self.lookup.items(candidates_N).items()}
        scores_1NK = np.empty((1, len(candidates_N), self.labels), np.float32)
        self._item.run({"state": self._state_1Z, "user_of_tile": self._user_of_tile_1, **tile}, scores_1NK)
        return scores_1NK[0]
