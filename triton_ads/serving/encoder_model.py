"""The model `user_encoder`: the user part of a tier, once per request."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_ads.serving.checks import Tensors, check_length
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import RequestError
from triton_ads.serving.release import Release
from triton_ads.serving.service import Outputs, Route, count_group, tier_order
from triton_ads.serving.state import HEADER, StateFormat
from triton_ads.serving.tier_encoder import tier_encoders
from triton_ads.serving.triton_model import TritonModel
from triton_ads.serving.users import UserRow

# B users, Z floats of state


@dataclass(frozen=True)
class EncoderRequest:
    route: Route
    user: UserRow

    @property
    def deadline_us(self) -> int:
        return self.route.deadline_us


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
        self._tiers = tier_encoders(release, counters)
        self._states = [
            StateFormat(release.manifest.release, release.manifest.tiers[tier].state_size) for tier in release.tiers
        ]

    def parse(self, tensors: Tensors) -> EncoderRequest:
        route = Route.read(tensors, self._release)
        for name, length in self._lengths.items():
            check_length(name, tensors[name][0], length)
        return EncoderRequest(route, UserRow(*(tensors[name] for name in self._lengths)))

    def groups(self, requests: Sequence[EncoderRequest]) -> list[int]:
        return [tier_order(self._release, request.route.tier) for request in requests]

    def answer(self, requests: Sequence[EncoderRequest]) -> list[Outputs | RequestError]:
        tier = requests[0].route.tier
        count_group(self._counters, self._release.tiers[tier], len(requests))
        states_BZ = self._states[tier].empty(len(requests))
        states_BZ[:, HEADER:] = self._tiers[tier].encode([request.user for request in requests])
        return [{"state": states_BZ[i : i + 1]} for i in range(len(requests))]

    def warm_up(self) -> None:
        for tier in self._tiers:
            tier.warm_up()


class EncoderModel(TritonModel):
    """What Triton loads."""

    def build(self, folder: Path, counters: Counters) -> UserEncoderService:
        return UserEncoderService(Release.open(folder, "tiers"), counters)
