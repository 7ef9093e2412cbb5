"""The model `item_scorer`: all candidates of all requests of a batch, ranked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.serving import counters as count
from triton_ads.serving.checks import Tensors, check_candidates, check_finite, check_length, check_scores
from triton_ads.serving.counters import Counters
from triton_ads.serving.engines import OnnxEngine
from triton_ads.serving.errors import RequestError
from triton_ads.serving.items import ItemEncoder
from triton_ads.serving.mixed_batch import TierScorer
from triton_ads.serving.ranking import LAST, RankRule, best_first
from triton_ads.serving.release import Release
from triton_ads.serving.service import Outputs, Route, tier_order
from triton_ads.serving.state import StateFormat
from triton_ads.serving.store import ItemStore
from triton_ads.serving.triton_model import TritonModel

# N candidates of a request, M of all requests of a group, F id columns, D dense columns, V value columns,
# Z floats of state, K labels


@dataclass(frozen=True)
class ScorerRequest:
    route: Route
    state_Z: NDArray[np.float32]  # without header
    candidates_N: NDArray[np.int64]
    item_features: NDArray[np.int64]  # N x F, or none
    item_dense: NDArray[np.float32]  # N x D, or none
    item_values: NDArray[np.float32]  # N x V, or none

    @property
    def deadline_us(self) -> int:
        return self.route.deadline_us


class ItemScorer:
    """Scores and ranks candidates; requests of a batch that go to the same tier share runs."""

    def __init__(self, release: Release, counters: Counters) -> None:
        recipe = release.recipe
        self._counters, self._release = counters, release
        store = ItemStore(release.folder / "store" / "items", recipe)
        self._items = ItemEncoder(recipe, release.tables(), store, counters)
        self._rule = RankRule(recipe)
        self._release_name = np.array([[release.manifest.release.encode()]], np.object_)
        sizes = [release.manifest.tiers[tier].state_size for tier in release.tiers]
        self._states = [StateFormat(release.manifest.release, size) for size in sizes]
        self._tiers = [
            TierScorer(tier, OnnxEngine(release.graph(tier, "item"), recipe.serving.threads), recipe, size, counters)
            for tier, size in zip(release.tiers, sizes, strict=True)
        ]

    def parse(self, tensors: Tensors) -> ScorerRequest:
        route = Route.read(tensors, self._release)
        candidates_N = tensors["candidates"][0]
        check_candidates(len(candidates_N), self._release.recipe.serving.max_candidates)
        item_features, item_dense, item_values = (
            tensors[f"item_{kind}"][0] for kind in ("features", "dense", "values")
        )
        check_length("item_features", item_features, 0, len(candidates_N) * self._items.id_columns)
        check_length("item_dense", item_dense, 0, len(candidates_N) * self._items.dense_columns)
        check_length("item_values", item_values, 0, len(candidates_N) * self._items.value_columns)
        check_finite("item_dense", item_dense)
        check_finite("item_values", item_values)
        state_Z = self._states[route.tier].values(tensors["state"][0])
        return ScorerRequest(route, state_Z, candidates_N, item_features, item_dense, item_values)

    def group(self, request: ScorerRequest) -> int:
        return tier_order(self._release, request.route.tier)

    def answer(self, requests: Sequence[ScorerRequest]) -> list[Outputs | RequestError]:
        tier = requests[0].route.tier
        self._counters.add(count.GROUPS, self._release.tiers[tier])
        self._counters.add(count.GROUPED, self._release.tiers[tier], amount=len(requests))
        scores_MK, value_M = self._score(tier, requests)
        answers: list[Outputs | RequestError] = []
        end = 0
        for request in requests:
            start, end = end, end + len(request.candidates_N)
            answers.append(self._answer_of(request, scores_MK[start:end], value_M[start:end]))
        return answers

    def _score(self, tier: int, requests: Sequence[ScorerRequest]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Scores float32 [M, K] and what the ranking rule makes of them, float32 [M]."""
        # A request without candidates has no tile; the others are scored as if it were not there.
        asked = [r for r in requests if len(r.candidates_N)]
        if not asked:
            return np.empty((0, len(self._release.recipe.labels)), np.float32), np.empty(0, np.float32)
        items = self._items.encode(asked)
        lengths = [len(r.candidates_N) for r in asked]
        scores_MK = self._tiers[tier].score([r.state_Z for r in asked], lengths, items.rows_MF, items.dense_MD)
        value_M = self._rule.values(scores_MK, items.dense_MD, items.values_MV)
        self._counters.add(count.WITHOUT_VALUE, amount=int(np.count_nonzero(value_M == LAST)))
        return scores_MK, value_M

    def _answer_of(
        self, request: ScorerRequest, scores_NK: NDArray[np.float32], value_N: NDArray[np.float32]
    ) -> Outputs | RequestError:
        """The ranking; an error where a finite but huge dense value overflowed on the way to the scores."""
        try:
            check_scores(scores_NK)
        except RequestError as error:
            return error
        order_N = best_first(value_N)
        return {
            "ranked_ids": request.candidates_N[order_N][None],
            "scores": scores_NK[order_N][None],
            "rank_values": value_N[order_N][None],
            "positions": order_N.astype(np.int32)[None],
            "release": self._release_name,
        }

    def warm_up(self) -> None:
        for tier in self._tiers:
            tier.warm_up()


class ScorerModel(TritonModel):
    """What Triton loads."""

    def build(self, folder: Path, counters: Counters) -> ItemScorer:
        return ItemScorer(Release.open(folder, "tiers", "vocabularies", "store/items"), counters)
