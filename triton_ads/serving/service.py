"""A service: what a model does, free of Triton: one step of the ensemble, or all of them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from triton_ads.serving import counters as count
from triton_ads.serving.checks import Tensors
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.release import Release

#: The output tensors of one request by name, each with Triton's batch of 1 in front.
Outputs = Mapping[str, NDArray[Any]]


class Request(Protocol):
    """What a service made of one request."""

    @property
    def deadline_us(self) -> int:
        """When the answer is worthless: unix time in microseconds."""


class Service(Protocol):
    """Parses requests one by one, and answers them in groups. It never changes the tensors that it is given."""

    def parse(self, tensors: Tensors) -> Any:
        """Check and read one request.

        Raises:
            RequestError: it cannot be answered.
        """

    def groups(self, requests: Sequence[Any]) -> list[int]:
        """The group of each request of a batch, asked once for each request.

        Those of one group are answered together, lower numbers first, and those of group 0 at once.
        """

    def answer(self, requests: Sequence[Any]) -> list[Outputs | RequestError]:
        """Answer requests of one group, each with its outputs or its refusal."""

    def warm_up(self) -> None:
        """Do once what requests will do, so that none of them pays for it."""


def now_us() -> int:
    """Unix time in microseconds."""
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Route:
    """What the router decided for a request; the tensor `route` of docs/wire.md."""

    tier: int  # position in the recipe
    deadline_us: int
    release: int

    def tensor(self) -> NDArray[np.int64]:
        return np.array([[self.tier, self.deadline_us, self.release]], np.int64)

    @classmethod
    def read(cls, tensors: Tensors, release: Release) -> "Route":
        """The route of a request.

        Raises:
            RequestError: it is of a router of another release, or names a tier that there is not.
        """
        tier, deadline_us, number = tensors["route"][0].tolist()
        if number != release.number:
            raise RequestError(
                Cause.OTHER_RELEASE,
                f"route: of release {number % 2**48:012x}, this model is of release {release.manifest.release}",
            )
        if not 0 <= tier < len(release.tiers):
            raise RequestError(Cause.UNKNOWN_TIER, f"route: tier {tier} found, 0 to {len(release.tiers) - 1} allowed")
        return cls(tier, deadline_us, number)


def count_group(counters: Counters, tier: str, requests: int) -> None:
    """Count a group of requests that is run together."""
    counters.add(count.GROUPS, tier)
    counters.add(count.GROUPED, tier, amount=requests)


def tier_order(release: Release, tier: int) -> int:
    """The group of a tier: the default tier is answered before any other, which may take longer."""
    return 0 if release.tiers[tier] == release.recipe.router.default_tier else 1 + tier
