"""The learned router at work: predicted gains, their price in FLOPs, and whether the budget should pay for them."""

# Legend: M requests.

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.vocabulary import Tables
from triton_ads.manifest import ManifestError
from triton_ads.routing.gain import GAIN_FILE, GainModel
from triton_ads.routing.journey import JourneyFeatures
from triton_ads.routing.threshold import Threshold
from triton_ads.serving.budget import Budget
from triton_ads.serving.release import Release
from triton_ads.serving.users import EncodedUser


class GainRouter:
    """Predicts what the high tier gains, and compares it with what others gain for the same cost.

    Raises:
        ManifestError: the release has no model for it.
        GainError: the model is of other features.
    """

    def __init__(self, release: Release, tables: Tables, clock: Callable[[], float]) -> None:
        recipe, tiers = release.recipe, release.manifest.tiers
        if GAIN_FILE not in release.manifest.files:
            raise ManifestError(f"{release.folder}: router.kind is learned, and there is no {GAIN_FILE}")
        self._features = JourneyFeatures(recipe, tables.table_rows)
        self._model = GainModel.load(release.folder / GAIN_FILE, self._features.names)
        self._threshold = Threshold(clock)
        default, high = tiers[recipe.router.default_tier], tiers[str(recipe.router.high_tier)]
        self._user_gflops = (high.flops_user - default.flops_user) / 1e9
        self._item_gflops = (high.flops_item - default.flops_item) / 1e9
        self._has_dense = bool(recipe.dense_columns("user", "context"))

    def gains(self, users: Sequence[EncodedUser]) -> NDArray[np.float32]:
        """float32 [M]: predicted gain of the high tier in nats of log-loss per candidate."""
        return self._model(
            self._features(
                np.concatenate([user.rows_1F for user in users]),
                np.concatenate([user.floats_1D for user in users]) if self._has_dense else None,
                np.concatenate([user.sequences_1L for user in users]) if users[0].sequences_1L.shape[1] else None,
            )
        )

    def worth(self, gain: float, candidates: int, budget: Budget) -> bool:
        """Whether the budget should pay for a request now; asked once for each, which is taken note of."""
        # The high tier should cost more; where it does not, any gain is worth it.
        gflops = max(self._user_gflops + candidates * self._item_gflops, 1e-9)
        return self._threshold.admits(gain / gflops, candidates, budget.per_second, budget.fill())
