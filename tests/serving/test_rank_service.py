"""The service of the layout single: what lies between its parts. Values are test_chain.py's."""

import numpy as np
import pytest

from tests.support.chain import LocalCall
from tests.support.tiny_release import ITEMS, USERS
from triton_ads.client.request import rank_inputs
from triton_ads.serving import counters as count
from triton_ads.serving.counters import Counters
from triton_ads.serving.dispatch import Dispatcher
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.rank_model import RankService
from triton_ads.serving.release import Release

START_US = 1_000_000


class Clock:
    def __init__(self):
        self.us = START_US

    def __call__(self):
        return self.us


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def counters():
    return Counters()


@pytest.fixture
def service(release_folder, counters, clock):
    return RankService(Release.open(release_folder), counters, clock)


@pytest.fixture
def dispatcher(service, counters, clock):
    running = Dispatcher(service, counters, largest=64, now=clock)
    yield running
    running.stop()


def calls(*left_us, tier="standard", user=USERS[19]):
    """One a deadline, in microseconds from the start."""
    return [LocalCall(rank_inputs(ITEMS[:9], user_id=user, tier=tier, deadline_us=START_US + us)) for us in left_us]


def slow_encoder(service, clock, monkeypatch, tier, microseconds):
    """A run of the encoder takes so long."""
    encoder = service._encoders[tier]
    encode = encoder.encode

    def slow(users):
        clock.us += microseconds
        return encode(users)

    monkeypatch.setattr(encoder, "encode", slow)


@pytest.mark.parametrize(("tier", "position"), [("standard", 0), ("high", 1)])
def test_a_deadline_that_passes_while_users_are_encoded(
    service, dispatcher, counters, clock, monkeypatch, tier, position
):
    alone = calls(10_000_000, tier=tier)
    dispatcher.execute(alone)
    expected = alone[0].wait()
    counters.drain()
    slow_encoder(service, clock, monkeypatch, position, 50_000)
    batch = calls(20_000, 10_000_000, 20_000, 10_000_000, tier=tier)
    dispatcher.execute(batch)
    first, second, third, fourth = (call.wait() for call in batch)
    for late in (first, third):
        assert isinstance(late, RequestError) and late.cause is Cause.DEADLINE
        assert str(late) == "deadline exceeded: it passed 30.0 ms ago"
    for answer in (second, fourth):
        assert answer["ranked_ids"].tolist() == expected["ranked_ids"].tolist()
        # 1e-6: another batch is another tile, and float32 sums in another order.
        np.testing.assert_allclose(answer["scores"], expected["scores"], rtol=0, atol=1e-6)
    counted = counters.drain()
    assert counted[count.REFUSED, (Cause.DEADLINE,)] == 2
    assert counted[count.CANDIDATES, (tier,)] == 2 * 9  # nothing was scored for those that were too late


def test_when_all_are_too_late_nothing_is_scored(service, dispatcher, counters, clock, monkeypatch):
    slow_encoder(service, clock, monkeypatch, 0, 50_000)
    batch = calls(20_000, 30_000)
    dispatcher.execute(batch)
    assert [str(call.wait()) for call in batch] == [
        "deadline exceeded: it passed 30.0 ms ago",
        "deadline exceeded: it passed 20.0 ms ago",
    ]
    assert count.CANDIDATES not in {metric for metric, _ in counters.drain()}


def test_who_is_too_late_when_it_comes_spends_nothing_of_the_high_tiers_budget(service, dispatcher):
    before = service.router._budget.left()
    batch = calls(-1, -2, tier="")
    dispatcher.execute(batch)
    assert all(isinstance(call.wait(), RequestError) for call in batch)
    assert service.router._budget.left() == before


def test_tiers_are_chosen_once_also_where_a_group_must_be_answered_one_by_one(
    service, dispatcher, counters, monkeypatch
):
    """The second run of the group spends nothing a second time."""
    rank = service._items.rank
    monkeypatch.setattr(
        service._items, "rank", lambda tier, items, states: rank(tier, items, states) if len(items) < 2 else 1 / 0
    )
    before = service.router._budget.left()
    batch = calls(10_000_000, 10_000_000, 10_000_000, tier="")
    dispatcher.execute(batch)
    for call in batch:
        assert (call.wait()["tier"].tolist(), call.wait()["reason"].tolist()) == ([[b"high"]], [[b"worthwhile"]])
    assert before - service.router._budget.left() == 3 * 9
    assert counters.drain()[count.CHOICES, ("high", "worthwhile")] == 3


def test_the_high_tier_does_not_hold_up_the_default_one(service, dispatcher, monkeypatch):
    """Both tiers in one batch: the call returns with the default tier's answers, the others come from the lane."""
    high, standard = calls(10_000_000, tier="high"), calls(10_000_000, 10_000_000)
    dispatcher.execute([standard[0], *high, standard[1]])
    assert all(call.result is not None and not call.deferred for call in standard)
    assert high[0].deferred and high[0].wait()["tier"].tolist() == [[b"high"]]
