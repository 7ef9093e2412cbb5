"""Questions to a release before anyone else asks it: users and ads of its own store, through every tier."""

from pathlib import Path

import numpy as np

from triton_ads.client import RankClient, TargetClient
from triton_ads.client.ranking import Ranking
from triton_ads.manifest import Manifest
from triton_ads.server.canary import NOBODY

_SIZES = (1, 7, 100)
_ROUNDS = 2  # the first finds buffers that are not there yet


class CanaryError(RuntimeError):
    """A release answered, but not as it must; the message says what was asked and answered."""


class ReleaseCanary:
    """Asks the models of one release.

    Args:
        url: host:port of the server's HTTP.
    """

    def __init__(self, url: str, release: Path, manifest: Manifest, timeout_s: float) -> None:
        self._url, self._manifest, self._timeout_s = url, manifest, timeout_s
        self._users = [NOBODY, *_some(release / "store" / "users" / "ids.npy")]
        self._items = np.load(release / "store" / "items" / "ids.npy", mmap_mode="r")

    def rank(self, model: str, *, quick: bool = False) -> None:
        """Ask a model that ranks: every tier, known and unknown users, one ad and many; `quick`: one question.

        Raises:
            RankError: no answer, an error, or not in time.
            CanaryError: a wrong answer.
        """
        sizes = [min(size, self._manifest.recipe.serving.max_candidates, len(self._items)) for size in _SIZES]
        questions = [
            (tier, user, size) for tier in self._manifest.tiers for user in self._users for size in dict.fromkeys(sizes)
        ]
        with RankClient(self._url, "http", model=model, timeout_s=self._timeout_s) as client:
            for tier, user, size in questions[:1] if quick else questions * _ROUNDS:
                ads = np.array(self._items[:size])
                answer = client.rank(ads, user_id=user, tier=tier, deadline_ms=self._timeout_s * 1000)
                self._check(model, tier, ads, answer)

    def target(self, model: str) -> None:
        """Ask a model that generates ads. Raises as `rank`."""
        with TargetClient(self._url, "http", model=model, timeout_s=self._timeout_s) as client:
            for user in self._users:
                answer = client.target(user_id=user, top=1, deadline_ms=self._timeout_s * 1000)
                self._check_release(model, answer.release)

    def ads(self, model: str) -> None:
        """Ask a model that generates ads and ranks them. Raises as `rank`."""
        with TargetClient(self._url, "http", model=model, timeout_s=self._timeout_s) as client:
            for user in self._users:
                answer = client.ads(user_id=user, top=1, deadline_ms=self._timeout_s * 1000)
                self._check_release(model, answer.ranking.release)

    def _check(self, model: str, tier: str, ads: np.ndarray, answer: Ranking) -> None:
        self._check_release(model, answer.release)
        if answer.tier != tier or sorted(answer.ids.tolist()) != sorted(ads.tolist()):
            raise CanaryError(f"{model}: {len(ads)} ads of tier {tier} asked, {len(answer)} of {answer.tier} answered")
        if not (np.isfinite(answer.scores).all() and (answer.scores >= 0).all() and (answer.scores <= 1).all()):
            raise CanaryError(f"{model}, tier {tier}: scores from {answer.scores.min()} to {answer.scores.max()}")

    def _check_release(self, model: str, found: str) -> None:
        if found != self._manifest.release:
            raise CanaryError(f"{model}: release {self._manifest.release} asked, {found} answered")


def _some(ids: Path) -> list[int]:
    """Two users of the store: the first, and the last."""
    known = np.load(ids, mmap_mode="r")
    return [int(known[i]) for i in sorted({0, len(known) - 1}) if len(known)]
