"""The model `user_encoder`: the user part of a tier, once per request."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.recipe import Recipe
from triton_ads.serving import counters as count
from triton_ads.serving.buckets import smallest
from triton_ads.serving.checks import Tensors, check_length
from triton_ads.serving.counters import Counters
from triton_ads.serving.engines import Engine, OnnxEngine
from triton_ads.serving.errors import RequestError
from triton_ads.serving.release import Release
from triton_ads.serving.service import Outputs, Route, tier_order
from triton_ads.serving.state import HEADER, StateFormat
from triton_ads.serving.triton_model import TritonModel

# B users, F id columns and D dense columns of user and context, L ids of all sequences, Z floats of state


@dataclass(frozen=True)
class EncoderRequest:
    route: Route
    rows_F: NDArray[np.int64]
    floats_D: NDArray[np.float32]
    sequences_L: NDArray[np.int64]

    @property
    def deadline_us(self) -> int:
        return self.route.deadline_us


class TierEncoder:
    """The user part of one tier, with its buffers. Not safe to use from two threads at once."""

    def __init__(self, tier: str, engine: Engine, recipe: Recipe, states: StateFormat, counters: Counters) -> None:
        self._tier, self._engine, self._states, self._counters = tier, engine, states, counters
        largest = recipe.serving.max_batch_requests
        self._sizes = [2**i for i in range((largest - 1).bit_length())] + [largest]
        self._inputs: dict[str, NDArray[Any]] = {
            "user_ids": np.zeros((largest, len(recipe.id_columns("user", "context"))), np.int64),
            "user_dense": np.zeros((largest, len(recipe.dense_columns("user", "context"))), np.float32),
            "sequence_ids": np.zeros((largest, recipe.sequence_width), np.int64),
        }
        self._values_BZ = np.zeros((largest, states.size), np.float32)

    def encode(self, requests: Sequence[EncoderRequest]) -> NDArray[np.float32]:
        """States of the users of `requests`, at most serving.max_batch_requests: float32 [B, 2 + Z] with headers."""
        users = len(requests)
        for i, request in enumerate(requests):
            self._inputs["user_ids"][i] = request.rows_F
            self._inputs["user_dense"][i] = request.floats_D
            self._inputs["sequence_ids"][i] = request.sequences_L
        run = self._sizes[smallest(self._sizes, users)] if self._engine.padded else users
        start = time.perf_counter()
        self._engine.run({name: array[:run] for name, array in self._inputs.items()}, self._values_BZ[:run])
        self._counters.add(count.RUNS, self._tier)
        self._counters.add(count.ENGINE_SECONDS, self._tier, amount=time.perf_counter() - start)
        states_BZ = self._states.empty(users)
        states_BZ[:, HEADER:] = self._values_BZ[:users]
        return states_BZ

    def warm_up(self) -> None:
        """Run every batch size of which there is a bucket once."""
        request = EncoderRequest(Route(0, 0, 0), *(array[0] for array in self._inputs.values()))
        for size in self._sizes:
            self.encode([request] * size)


class UserEncoderService:
    """Encodes users; requests of a batch that go to the same tier share a run."""

    def __init__(self, release: Release, counters: Counters) -> None:
        recipe = release.recipe
        self._counters, self._release = counters, release
        self._lengths = {
            "user_rows": len(recipe.id_columns("user", "context")),
            "user_floats": len(recipe.dense_columns("user", "context")),
            "sequence_rows": recipe.sequence_width,
        }
        self._tiers = [
            TierEncoder(
                tier,
                OnnxEngine(release.graph(tier, "user"), recipe.serving.threads),
                recipe,
                StateFormat(release.manifest.release, release.manifest.tiers[tier].state_size),
                counters,
            )
            for tier in release.tiers
        ]

    def parse(self, tensors: Tensors) -> EncoderRequest:
        route = Route.read(tensors, self._release)
        arrays = [tensors[name][0] for name in self._lengths]
        for (name, length), array in zip(self._lengths.items(), arrays, strict=True):
            check_length(name, array, length)
        return EncoderRequest(route, *arrays)

    def group(self, request: EncoderRequest) -> int:
        return tier_order(self._release, request.route.tier)

    def answer(self, requests: Sequence[EncoderRequest]) -> list[Outputs | RequestError]:
        tier = requests[0].route.tier
        self._counters.add(count.GROUPS, self._release.tiers[tier])
        self._counters.add(count.GROUPED, self._release.tiers[tier], amount=len(requests))
        states_BZ = self._tiers[tier].encode(requests)
        return [{"state": states_BZ[i : i + 1]} for i in range(len(requests))]

    def warm_up(self) -> None:
        for tier in self._tiers:
            tier.warm_up()


class EncoderModel(TritonModel):
    """What Triton loads."""

    def build(self, folder: Path, counters: Counters) -> UserEncoderService:
        return UserEncoderService(Release.open(folder, "tiers"), counters)
