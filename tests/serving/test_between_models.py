"""What a model does with tensors that another model would never send, or one of another release."""

import numpy as np
import pytest

from tests.support.chain import Chain
from tests.support.tiny_release import ITEMS, USERS, tiny_recipe, write_tiny_release
from triton_ads.client.request import rank_inputs
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.service import Route


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A second release, which differs in a limit only."""
    folder = tmp_path_factory.mktemp("other") / "release"
    chain = Chain(write_tiny_release(folder, tiny_recipe(max_candidates=77)))
    yield chain
    chain.close()


def asked(chain, tier="standard", user=USERS[9]):
    """All tensors of a request that went through the whole chain."""
    return chain.one(rank_inputs(ITEMS[:5], user_id=user, tier=tier))


def refused(parse, tensors):
    with pytest.raises(RequestError) as error:
        parse(tensors)
    return error.value.cause, str(error.value)


def test_an_encoder_answers_no_router_of_another_release(chain, other):
    ours, theirs = asked(chain), asked(other)
    cause, message = refused(chain.encoder.parse, {**ours, "route": theirs["route"]})
    assert cause is Cause.OTHER_RELEASE
    assert theirs["release"][0, 0].decode() in message
    assert ours["release"][0, 0].decode() in message


def test_a_scorer_answers_no_state_of_another_release(chain, other):
    ours, theirs = asked(chain), asked(other)
    cause, message = refused(chain.scorer.parse, {**ours, "state": theirs["state"]})
    assert cause is Cause.OTHER_RELEASE
    assert f"state: of release {theirs['release'][0, 0].decode()}" in message
    assert refused(chain.scorer.parse, {**ours, "route": theirs["route"]})[0] is Cause.OTHER_RELEASE


def test_a_state_of_another_tier(chain):
    standard, high = asked(chain), asked(chain, "high")
    cause, message = refused(chain.scorer.parse, {**standard, "state": high["state"]})
    assert (cause, message) == (Cause.WRONG_LENGTH, "state: length 11 found, 7 allowed in this tier")


@pytest.mark.parametrize("tier", [-1, 2])
def test_a_tier_that_there_is_not(chain, tier):
    ours = asked(chain)
    route = ours["route"].copy()
    route[0, 0] = tier
    for parse in (chain.encoder.parse, chain.scorer.parse):
        assert refused(parse, {**ours, "route": route}) == (
            Cause.UNKNOWN_TIER,
            f"route: tier {tier} found, 0 to 1 allowed",
        )


@pytest.mark.parametrize(("tensor", "length"), [("user_rows", 4), ("user_floats", 3), ("sequence_rows", 11)])
def test_rows_of_another_length(chain, tensor, length):
    ours = asked(chain)
    for shorter in (0, length - 1):
        assert refused(chain.encoder.parse, {**ours, tensor: ours[tensor][:, :shorter]}) == (
            Cause.WRONG_LENGTH,
            f"{tensor}: length {shorter} found, {length} allowed",
        )


def test_rows_out_of_range_are_out_of_vocabulary(chain):
    """The graph sanitises: a row that a table has not is OOV, on every engine."""
    ours = asked(chain)
    states = [
        chain.encoder.answer([chain.encoder.parse({**ours, "user_rows": np.full((1, 4), row)})])[0]["state"]
        for row in (1, -1, 1000, 2**62)
    ]
    for state in states[1:]:
        np.testing.assert_array_equal(state, states[0])


def test_too_many_candidates_for_a_scorer_asked_by_itself(chain):
    ours = asked(chain)
    cause, message = refused(chain.scorer.parse, {**ours, "candidates": np.zeros((1, 2001), np.int64)})
    assert (cause, message) == (
        Cause.TOO_MANY_CANDIDATES,
        "candidates: 2001 found, at most 2000 allowed (serving.max_candidates)",
    )


def test_a_route_is_read_as_it_was_written(chain):
    route = asked(chain, "high")["route"]
    read = Route.read({"route": route}, chain.scorer._release)
    assert (read.tier, f"{read.release:012x}") == (1, chain.scorer._release.manifest.release)
    np.testing.assert_array_equal(read.tensor(), route)
