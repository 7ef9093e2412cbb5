"""What the two peers on Triton's Python backend share: a release, a tier, and requests of a user and candidates.

    user_id [1, 1]   candidates [1, N]   ->   scores [1, N, K], in the order of the request

Written as such models are: an error fails the whole batch. The benchmark sends no bad request.
"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.serving_peers.lookup import Lookup
from triton_ads.recipe.names import RELEASE_LINK

# N candidates, K labels

TIER = "tier"  # a parameter of the config


class PeerModel:
    """A Python model of Triton; a peer says how it scores the requests of a batch."""

    def open(self, folder: Path, tier: str) -> None:
        """Load the graphs; `folder` is the version's, and holds a link to the release."""
        raise NotImplementedError

    def score(self, requests: Sequence[tuple[int, NDArray[np.int64]]]) -> list[NDArray[np.float32]]:
        """Scores [N, K] for each (user, candidates [N])."""
        raise NotImplementedError

    def initialize(self, args: dict[str, str]) -> None:
        self._pb = importlib.import_module("triton_python_backend_utils")
        folder = Path(args["model_repository"]) / args["model_version"]
        config = json.loads(args["model_config"])
        self.lookup = Lookup(folder / RELEASE_LINK)
        self.labels: int = config["output"][0]["dims"][1]
        self.open(folder, config["parameters"][TIER]["string_value"])

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        asked = []
        for request in requests:
            tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            asked.append((int(tensors["user_id"][0, 0]), tensors["candidates"][0]))
        return [
            self._pb.InferenceResponse([self._pb.Tensor("scores", scores_NK[None])]) for scores_NK in self.score(asked)
        ]
