"""Every branch of the decision."""

import pytest

from tests.support.tiny_release import tiny_recipe
from triton_ads.manifest import CostModel
from triton_ads.recipe import Recipe
from triton_ads.serving.router import MARGIN, Decision, Policy, Reason, decide

COST = CostModel(fixed_ms=1.0, tile_ms=2.0, user_ms=3.0)
POLICY = Policy("standard", "high", min_history=5, max_candidates=50, tile=8, high_cost=COST)
LEARNED = Policy("standard", "high", min_history=5, max_candidates=50, tile=8, high_cost=COST, learned=True)
#: A request to which no rule applies: the high tier answers it.
GOOD = {
    "context_allows": True,
    "history": 10,
    "candidates": 20,
    "left_ms": 1000.0,
    "ahead_ms": 0.0,
    "worth": lambda: True,
    "budget": 1e6,
    "insisted": None,
}


@pytest.mark.parametrize(
    ("change", "tier", "reason"),
    [
        ({}, "high", Reason.WORTHWHILE),
        ({"insisted": "high"}, "high", Reason.INSISTED),
        ({"insisted": "standard"}, "standard", Reason.INSISTED),
        ({"insisted": "high", "history": 0, "candidates": 51, "left_ms": 0.0, "budget": 0.0}, "high", Reason.INSISTED),
        ({"candidates": 0}, "standard", Reason.NO_CANDIDATES),
        ({"context_allows": False}, "standard", Reason.CONTEXT),
        ({"context_allows": False, "insisted": "high"}, "high", Reason.INSISTED),
        ({"history": 4}, "standard", Reason.SHORT_HISTORY),
        ({"history": 5}, "high", Reason.WORTHWHILE),
        ({"candidates": 50}, "high", Reason.WORTHWHILE),
        ({"candidates": 51}, "standard", Reason.MANY_CANDIDATES),
        ({"left_ms": 19.9}, "standard", Reason.DEADLINE),
        ({"left_ms": 20.0}, "high", Reason.WORTHWHILE),
        ({"left_ms": 20.0, "ahead_ms": 0.1}, "standard", Reason.DEADLINE),
        ({"left_ms": -5.0}, "standard", Reason.DEADLINE),
        ({"budget": 19.9}, "standard", Reason.BUDGET),
        ({"budget": 20.0}, "high", Reason.WORTHWHILE),
        ({"worth": lambda: False}, "high", Reason.WORTHWHILE),  # nobody asks
    ],
)
def test_decisions(change, tier, reason):
    assert decide(POLICY, **(GOOD | change)) == Decision(tier, reason)


@pytest.mark.parametrize(
    ("change", "tier", "reason"),
    [
        ({}, "high", Reason.PREDICTED_GAIN),
        ({"history": 0}, "high", Reason.PREDICTED_GAIN),
        ({"worth": lambda: False}, "standard", Reason.LOW_GAIN),
        ({"worth": lambda: False, "insisted": "high"}, "high", Reason.INSISTED),
        ({"worth": lambda: False, "budget": 0.0}, "standard", Reason.LOW_GAIN),
        ({"budget": 19.9}, "standard", Reason.BUDGET),
        ({"left_ms": 19.9}, "standard", Reason.DEADLINE),
        ({"candidates": 51}, "standard", Reason.MANY_CANDIDATES),
    ],
)
def test_decisions_of_a_learned_router(change, tier, reason):
    assert decide(LEARNED, **(GOOD | change)) == Decision(tier, reason)


@pytest.mark.parametrize(
    "change",
    [{"insisted": "standard"}, {"candidates": 0}, {"context_allows": False}, {"candidates": 51}, {"left_ms": 1.0}],
)
def test_worth_is_asked_only_of_requests_that_the_high_tier_may_answer(change):
    def worth():
        raise AssertionError("asked")

    assert decide(LEARNED, **(GOOD | change | {"worth": worth})).tier == "standard"
    with pytest.raises(AssertionError, match="asked"):
        decide(LEARNED, **(GOOD | {"worth": worth}))


def test_the_time_of_the_high_tier():
    """20 candidates are 3 tiles of 8: 3 + 1 + 3 x 2 ms, and the time left must be MARGIN times that."""
    assert POLICY.high_ms(20) == 10.0
    assert MARGIN * POLICY.high_ms(20) == 20.0


@pytest.mark.parametrize("high", [None, "standard"])
def test_without_a_high_tier(high):
    recipe = tiny_recipe()
    document = recipe.model_dump(mode="json")
    document["router"]["high_tier"] = high
    policy = Policy.of(Recipe.model_validate(document), {"standard": COST, "high": COST})
    assert decide(policy, **GOOD) == Decision("standard", Reason.ONLY_TIER)
    assert decide(policy, **(GOOD | {"insisted": "high"})) == Decision("high", Reason.INSISTED)


def test_the_policy_is_the_recipe_s():
    policy = Policy.of(tiny_recipe(), {"standard": CostModel(fixed_ms=0, tile_ms=0, user_ms=0), "high": COST})
    assert policy == Policy("standard", "high", 5, 50, 8, COST)


def test_every_reason_is_explained_where_clients_look():
    import pathlib

    text = pathlib.Path("docs/wire.md").read_text()
    assert all(f"`{reason}`" in text for reason in Reason)
