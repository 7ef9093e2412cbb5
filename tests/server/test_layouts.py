"""Both layouts on real servers, with the same release: the same answers, bit for bit, and the same refusals."""

import numpy as np
import pytest

from tests.support.rank_reference import RankReference
from tests.support.tiny_release import ITEMS, USERS
from triton_ads.client import RankClient, RankError
from triton_ads.client.request import rank_inputs
from triton_ads.features.ids import raw_id

UNKNOWN_USER, HUGE = 7, 2**63 - 1
#: The last one exceeds the largest bucket: 4 tiles of 8.
SIZES = (0, 1, 8, 9, 33, 700)


def items(n):
    """n candidates, some unknown, and duplicates where n is more than there are ads."""
    return ITEMS[0] - 3 + np.arange(n) * 7 % 65


GOOD = {
    **{
        f"{n} candidates, {tier}": {"candidates": items(n), "tier": tier}
        for n in SIZES
        for tier in ("standard", "high")
    },
    "chosen by the router": {"candidates": items(20), "user_id": USERS[19]},
    "too many for the high tier": {"candidates": items(60), "user_id": USERS[19]},
    "an unknown user": {"candidates": items(20), "user_id": UNKNOWN_USER},
    "nobody, who says what they did": {"candidates": items(20), "user_id": -1, "sequences": [[[ITEMS[0], 1]] * 5, []]},
    "unknown ads": {"candidates": [3, HUGE, -1, ITEMS[0]], "tier": "high"},
    "all that can be sent": {
        "candidates": [ITEMS[0], 3],
        "user_features": [USERS[3], raw_id("loyal"), raw_id("city 3")],
        "user_dense": [0.5, -2.0],
        "context_features": [raw_id("morning")],
        "context_dense": [0.25],
        "item_features": [[ITEMS[1], 1, 2, -1], [8, 77, -1, -1]],
        "item_dense": [[4.0], [-4.0]],
        "item_values": [1.0, 2.0],
    },
}

BAD = {
    "deadline exceeded: it passed": {"deadline_us": np.array([[1]])},
    "candidates: 1001 found, at most 1000 allowed": {"candidates": np.arange(1001)[None]},
    "insisted_tier: 'gold' found, standard, high or empty allowed": {"insisted_tier": np.array([[b"gold"]], object)},
    "user_dense: nan found at position 1": {"user_dense": np.array([[0, np.nan]], np.float32)},
    "item_dense: length 2 found, 0 or 5 allowed": {"item_dense": np.zeros((1, 2), np.float32)},
    "sequence_lengths: 0 found, 2 needed": {"sequences": np.array([[1, 2, 3]])},
}


@pytest.fixture(params=["grpc", "http"])
def both(request, server, ensemble_server):
    """A client of the layout single, and one of the layout ensemble."""
    urls = [getattr(running, f"{request.param}_url") for running in (server, ensemble_server)]
    clients = [RankClient(url, request.param, timeout_s=30) for url in urls]
    yield clients
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def reference(repository, recipe):
    return RankReference(repository / "rank" / "1" / "release", recipe)


@pytest.mark.parametrize("name", GOOD)
def test_both_answer_the_same_and_what_the_row_wise_reference_says(both, reference, name):
    asked = {"user_id": USERS[12], **GOOD[name]}
    single, ensemble = (client.rank(**asked) for client in both)
    for field in ("ids", "scores", "rank_values", "positions"):
        np.testing.assert_array_equal(getattr(single, field), getattr(ensemble, field))
    assert (single.tier, single.reason, single.release) == (ensemble.tier, ensemble.reason, ensemble.release)
    expected = reference.rank(rank_inputs(**asked), single.tier)
    order, expected_order = np.argsort(single.positions), np.argsort(expected.positions)
    # 1e-6: float32 sums in another order than the reference's.
    np.testing.assert_allclose(single.scores[order], expected.scores_NK[expected_order], rtol=0, atol=1e-6)
    assert sorted(single.positions.tolist()) == list(range(len(asked["candidates"])))


@pytest.mark.parametrize("message", BAD)
def test_both_refuse_with_the_same_words(both, message):
    errors = []
    for client in both:
        with pytest.raises(RankError, match=message) as raised:
            client.transport.infer("rank", {**rank_inputs(items(5), user_id=USERS[3]), **BAD[message]}, 30)
        errors.append(raised.value)
    assert errors[0].status == errors[1].status
    if "deadline" not in message:  # which says by how much it was missed
        assert str(errors[0]).partition(": ")[2] == str(errors[1]).partition(": ")[2]
