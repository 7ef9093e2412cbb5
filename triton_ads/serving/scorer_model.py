"""The model `item_scorer`: all candidates of all requests of a batch, ranked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.serving.checks import Tensors
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import RequestError
from triton_ads.serving.item_ranker import ItemRanker, ItemRequest
from triton_ads.serving.release import Release
from triton_ads.serving.service import Outputs, Route, count_group, tier_order
from triton_ads.serving.state import StateFormat
from triton_ads.serving.triton_model import TritonModel

# Z floats of state


@dataclass(frozen=True)
class ScorerRequest:
    route: Route
    state_Z: NDArray[np.float32]  # without header
    items: ItemRequest

    @property
    def deadline_us(self) -> int:
        return self.route.deadline_us


class ItemScorer:
    """Ranks candidates for the states that the encoder sent."""

    def __init__(self, release: Release, counters: Counters) -> None:
        self._counters, self._release = counters, release
        self._items = ItemRanker(release, counters)
        self._states = [
            StateFormat(release.manifest.release, release.manifest.tiers[tier].state_size) for tier in release.tiers
        ]

    def parse(self, tensors: Tensors) -> ScorerRequest:
        route = Route.read(tensors, self._release)
        items = self._items.parse(tensors)
        return ScorerRequest(route, self._states[route.tier].values(tensors["state"][0]), items)

    def groups(self, requests: Sequence[ScorerRequest]) -> list[int]:
        return [tier_order(self._release, request.route.tier) for request in requests]

    def answer(self, requests: Sequence[ScorerRequest]) -> list[Outputs | RequestError]:
        tier = requests[0].route.tier
        count_group(self._counters, self._release.tiers[tier], len(requests))
        states_BZ = np.stack([request.state_Z for request in requests])
        return list(self._items.rank(tier, [request.items for request in requests], states_BZ))

    def warm_up(self) -> None:
        self._items.warm_up()


class ScorerModel(TritonModel):
    """What Triton loads."""

    def build(self, folder: Path, counters: Counters) -> ItemScorer:
        return ItemScorer(Release.open(folder, "tiers", "vocabularies", "store/items"), counters)
