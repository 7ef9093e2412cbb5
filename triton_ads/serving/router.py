"""Which tier answers a request, and why: a pure function.

The rules in their order; the first that applies decides:

    insisted          the request names a tier
    only_tier         the recipe has no high tier, or it is the default one
    no_candidates     there is nothing to score                                      -> default
    context           the scenario is not one of router.high_scenarios               -> default
    short_history     rules: fewer events than router.min_history                    -> default
    many_candidates   more than router.max_candidates                                -> default
    deadline          the high tier would not be done in time                        -> default
    low_gain          learned: others gain more for the cost (triton_ads/routing)    -> default
    budget            router.high_candidates_per_second is used up                   -> default
    worthwhile        rules: none of these                                           -> high
    predicted_gain    learned: none of these                                         -> high

Under pressure the answer gets simpler, not late.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from triton_ads.manifest import CostModel
from triton_ads.recipe import Recipe


class Reason(StrEnum):
    """The output `reason`, and the label `reason` of the metric `triton_ads_tier_choices_total`."""

    INSISTED = "insisted"
    ONLY_TIER = "only_tier"
    NO_CANDIDATES = "no_candidates"
    CONTEXT = "context"
    SHORT_HISTORY = "short_history"
    MANY_CANDIDATES = "many_candidates"
    DEADLINE = "deadline"
    LOW_GAIN = "low_gain"
    BUDGET = "budget"
    WORTHWHILE = "worthwhile"
    PREDICTED_GAIN = "predicted_gain"


#: The time left must be this many times the time that the tier takes by itself: there are queues before it, and its
#: cost was measured on the machine that built it.
MARGIN = 2.0


@dataclass(frozen=True)
class Policy:
    """What the decision needs of a release."""

    default_tier: str
    high_tier: str | None
    min_history: int
    max_candidates: int
    tile: int
    high_cost: CostModel | None
    learned: bool = False

    @classmethod
    def of(cls, recipe: Recipe, costs: dict[str, CostModel]) -> "Policy":
        router = recipe.router
        high = router.high_tier if router.high_tier != router.default_tier else None
        return cls(
            router.default_tier,
            high,
            router.min_history,
            router.max_candidates,
            recipe.serving.tile,
            costs[high] if high else None,
            router.learned,
        )

    def high_ms(self, candidates: int) -> float:
        """Time that the high tier takes for a request by itself, by the manifest's cost model."""
        cost = self.high_cost
        return cost.user_ms + cost.fixed_ms + cost.tile_ms * -(-candidates // self.tile) if cost else 0.0


@dataclass(frozen=True)
class Decision:
    tier: str
    reason: Reason

    def tensors(self) -> dict[str, NDArray[np.object_]]:
        """The outputs `tier` and `reason` of docs/wire.md."""
        return {
            "tier": np.array([[self.tier.encode()]], np.object_),
            "reason": np.array([[self.reason.encode()]], np.object_),
        }


def decide(
    policy: Policy,
    *,
    context_allows: bool,
    history: int,
    candidates: int,
    left_ms: float,
    ahead_ms: float,
    worth: Callable[[], bool],
    budget: float,
    insisted: str | None,
) -> Decision:
    """Choose the tier of one request.

    Args:
        context_allows: the request's scenario is one in which the high tier may answer.
        history: events known of the user.
        left_ms: time until the deadline.
        ahead_ms: time that the high tier still needs for the requests that were given to it before.
        worth: of a learned router, whether the predicted gain is worth its cost now. Asked only where no rule before
            it decides, since the one who answers takes note of whom the budget could be spent on.
        budget: candidates that the high tier may still score.
        insisted: a tier of the recipe that the request insists on; None: it does not.
    """
    if insisted is not None:
        return Decision(insisted, Reason.INSISTED)
    if policy.high_tier is None:
        return Decision(policy.default_tier, Reason.ONLY_TIER)
    if candidates == 0:
        return Decision(policy.default_tier, Reason.NO_CANDIDATES)
    if not context_allows:
        return Decision(policy.default_tier, Reason.CONTEXT)
    if not policy.learned and history < policy.min_history:
        return Decision(policy.default_tier, Reason.SHORT_HISTORY)
    if candidates > policy.max_candidates:
        return Decision(policy.default_tier, Reason.MANY_CANDIDATES)
    if left_ms < MARGIN * (ahead_ms + policy.high_ms(candidates)):
        return Decision(policy.default_tier, Reason.DEADLINE)
    if policy.learned and not worth():
        return Decision(policy.default_tier, Reason.LOW_GAIN)
    if budget < candidates:
        return Decision(policy.default_tier, Reason.BUDGET)
    return Decision(policy.high_tier, Reason.PREDICTED_GAIN if policy.learned else Reason.WORTHWHILE)
