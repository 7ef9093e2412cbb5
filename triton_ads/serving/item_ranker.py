"""The candidates of many requests, scored in shared runs and ranked, given the states of their users."""

from collections.abc import Sequence
from dataclasses import dataclass

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
from triton_ads.serving.store import ItemStore

# B requests, N candidates of a request, M of all requests of a group, F id columns, D dense columns, V value columns,
# Z floats of state, K labels


@dataclass(frozen=True)
class ItemRequest:
    """The candidates of one request, checked."""

    candidates_N: NDArray[np.int64]
    item_features: NDArray[np.int64]  # N x F, or none
    item_dense: NDArray[np.float32]  # N x D, or none
    item_values: NDArray[np.float32]  # N x V, or none


class ItemRanker:
    """Scores and ranks candidates; requests of a batch that go to the same tier share runs."""

    def __init__(self, release: Release, counters: Counters) -> None:
        recipe, tiers = release.recipe, release.manifest.tiers
        self._counters, self._recipe = counters, recipe
        store = ItemStore(release.folder / "store" / "items", recipe)
        self._items = ItemEncoder(recipe, release.tables(), store, counters)
        self._rule = RankRule(recipe)
        self._release_name = np.array([[release.manifest.release.encode()]], np.object_)
        self._tiers = [
            TierScorer(
                tier,
                OnnxEngine(release.graph(tier, "item"), recipe.serving.threads),
                recipe,
                tiers[tier].state_size,
                counters,
            )
            for tier in release.tiers
        ]

    def parse(self, tensors: Tensors) -> ItemRequest:
        """Check and read the candidates of one request.

        Raises:
            RequestError: too many of them, a tensor of a length that is not allowed, or a value that is not finite.
        """
        candidates_N = tensors["candidates"][0]
        check_candidates(len(candidates_N), self._recipe.serving.max_candidates)
        item_features, item_dense, item_values = (
            tensors[f"item_{kind}"][0] for kind in ("features", "dense", "values")
        )
        check_length("item_features", item_features, 0, len(candidates_N) * self._items.id_columns)
        check_length("item_dense", item_dense, 0, len(candidates_N) * self._items.dense_columns)
        check_length("item_values", item_values, 0, len(candidates_N) * self._items.value_columns)
        check_finite("item_dense", item_dense)
        check_finite("item_values", item_values)
        return ItemRequest(candidates_N, item_features, item_dense, item_values)

    def rank(
        self, tier: int, requests: Sequence[ItemRequest], states_BZ: NDArray[np.float32]
    ) -> list[dict[str, NDArray[np.generic]] | RequestError]:
        """The ranking of each request, as the tensors of docs/wire.md; an error where its scores are no numbers.

        Args:
            tier: position in the recipe.
            states_BZ: of the requests' users, without headers.
        """
        scores_MK, value_M = self._score(tier, requests, states_BZ)
        finite = bool(np.isfinite(scores_MK).all())
        answers: list[dict[str, NDArray[np.generic]] | RequestError] = []
        end = 0
        for request in requests:
            start, end = end, end + len(request.candidates_N)
            scores_NK = scores_MK[start:end]
            try:
                if not finite:  # a finite but huge dense value overflowed on the way: whose?
                    check_scores(scores_NK)
                answers.append(self._ranked(request, scores_NK, value_M[start:end]))
            except RequestError as error:
                answers.append(error)
        return answers

    def _score(
        self, tier: int, requests: Sequence[ItemRequest], states_BZ: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Scores float32 [M, K] and what the ranking rule makes of them, float32 [M]."""
        # A request without candidates has no tile; the others are scored as if it were not there.
        asked = [i for i, request in enumerate(requests) if len(request.candidates_N)]
        if not asked:
            return np.empty((0, len(self._recipe.labels)), np.float32), np.empty(0, np.float32)
        if len(asked) < len(requests):
            requests, states_BZ = [requests[i] for i in asked], states_BZ[asked]
        items = self._items.encode(requests)
        lengths = [len(request.candidates_N) for request in requests]
        scores_MK = self._tiers[tier].score(states_BZ, lengths, items.rows_MF, items.dense_MD)
        value_M = self._rule.values(scores_MK, items.dense_MD, items.values_MV)
        self._counters.add(count.WITHOUT_VALUE, amount=int(np.count_nonzero(value_M == LAST)))
        return scores_MK, value_M

    def _ranked(
        self, request: ItemRequest, scores_NK: NDArray[np.float32], value_N: NDArray[np.float32]
    ) -> dict[str, NDArray[np.generic]]:
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
