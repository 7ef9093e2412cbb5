"""The learned router in the whole chain: gains as planted in the release, the budget, the load, and bad releases."""

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.chain import Chain
from tests.support.learned_release import learned_recipe, write_learned_release
from tests.support.tiny_release import ITEMS, USERS, seal
from triton_ads.client.request import rank_inputs
from triton_ads.manifest import ManifestError
from triton_ads.routing.gain import GAIN_FILE, GainError, GainParameters
from triton_ads.serving import counters as count
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause
from triton_ads.serving.load_report import LoadReceiver, LoadSender
from triton_ads.serving.release import Release
from triton_ads.serving.router_model import Router

UNKNOWN_USER = 7


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The high tier gains where the journey `recent` has more than one event: log(1 + events) - 1 > 0 from two on."""
    recipe = learned_recipe(high_candidates_per_second=1_000_000)
    return write_learned_release(
        tmp_path_factory.mktemp("learned") / "release", recipe, **{"recent events": 1.0}, bias=-1.0
    )


@pytest.fixture
def chain(release: Path):
    running = Chain(release)
    yield running
    running.close()


def choice(chain: Chain, n: int = 10, **request: Any) -> tuple[str, str]:
    answer = chain.one(rank_inputs(list(ITEMS[:n]), **request))
    return answer["tier"][0, 0].decode(), answer["reason"][0, 0].decode()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"user_id": USERS[1]}, ("standard", "low_gain")),  # one event
        ({"user_id": USERS[2]}, ("high", "predicted_gain")),  # two; below the recipe's min_history of 5
        ({"user_id": USERS[15]}, ("high", "predicted_gain")),
        ({"user_id": UNKNOWN_USER}, ("standard", "low_gain")),
        ({}, ("standard", "low_gain")),
        ({"sequences": [[[ITEMS[0], 1], [ITEMS[1], 2]], []]}, ("high", "predicted_gain")),  # a cold user with a journey
        ({"user_id": USERS[1], "tier": "high"}, ("high", "insisted")),
        ({"user_id": USERS[15], "tier": "standard"}, ("standard", "insisted")),
        ({"user_id": USERS[15], "n": 0}, ("standard", "no_candidates")),
        ({"user_id": USERS[15], "n": 51}, ("standard", "many_candidates")),
    ],
)
def test_every_choice_is_explained_and_counted(
    chain: Chain, request_: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert choice(chain, **request_) == expected
    assert chain.counted()[count.CHOICES, expected] == 1


def test_the_answer_is_that_of_the_tier(chain: Chain) -> None:
    for user, tier in ((USERS[15], "high"), (USERS[1], "standard")):
        chosen = chain.one(rank_inputs(list(ITEMS[:9]), user_id=user))
        insisted = chain.one(rank_inputs(list(ITEMS[:9]), user_id=user, tier=tier))
        np.testing.assert_array_equal(chosen["scores"], insisted["scores"])


def test_a_batch_is_decided_one_by_one(chain: Chain) -> None:
    users = [USERS[i] for i in (1, 15, 0, 9)]
    answers = chain.rank([rank_inputs(list(ITEMS[:5]), user_id=user) for user in users])
    assert [a["reason"][0, 0] for a in answers] == [b"low_gain", b"predicted_gain", b"low_gain", b"predicted_gain"]


class Clock:
    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.us


def ask(router: Router, user: int, n: int, **request: Any) -> tuple[str, str]:
    """The router's answer to one request of its own."""
    tensors = rank_inputs(list(range(n)), user_id=user, **request)
    (answer,) = router.answer([router.parse(tensors)])
    return answer["tier"][0, 0].decode(), answer["reason"][0, 0].decode()


def test_a_deadline_too_near_is_no_question_of_gain(release: Path) -> None:
    clock = Clock()
    router = Router(Release.open(release), Counters(), now=clock)
    # 40 candidates are 5 tiles of 8: 0.05 + 0.05 + 5 x 0.01 ms, twice that must be left.
    assert ask(router, USERS[15], 40, deadline_us=clock.us + 299) == ("standard", "deadline")
    assert ask(router, USERS[15], 40, deadline_us=clock.us + 301) == ("high", "predicted_gain")


def test_the_budget_goes_to_those_who_gain_most(tmp_path: Path) -> None:
    """100 requests of 50 candidates a second, and a budget for 20 of them: the 10 % longest journeys get all of it."""
    recipe = learned_recipe(high_candidates_per_second=1000)
    folder = write_learned_release(tmp_path / "release", recipe, **{"clicks events": 1.0, "recent events": 1.0})
    clock, random = Clock(), np.random.default_rng(0)
    router = Router(Release.open(folder), Counters(), now=clock)
    taken = {"long": 0, "short": 0}
    for i in range(6000):
        clock.us += int(random.exponential(10_000))
        long = random.random() < 0.1
        tier, reason = ask(router, USERS[15] if long else USERS[1], 50)
        assert reason in ("predicted_gain", "low_gain", "budget")
        if i >= 2000:
            taken["long" if long else "short"] += tier == "high"
    spent = 50 * (taken["long"] + taken["short"]) / 40  # 4,000 requests, 40 s
    assert spent == pytest.approx(1000, rel=0.05)
    assert taken["long"] == pytest.approx(400, rel=0.15)  # a few meet an empty bucket
    assert taken["short"] == pytest.approx(400, rel=0.15)  # equal ones share what is left


def test_reports_of_requests_too_late_lower_the_budget_and_calm_raises_it(release: Path) -> None:
    clock = Clock()
    sender, receiver = LoadSender(release, 1), LoadReceiver(release, 1)
    router = Router(Release.open(release), Counters(), now=clock, reports=receiver)
    ask(router, USERS[15], 10)
    full = router.budget_per_second
    assert full == 1_000_000
    sender.add(count.REQUESTS, (), 100)
    sender.add(count.REFUSED, (Cause.DEADLINE,), 20)
    sender.add(count.REFUSED, (Cause.WRONG_LENGTH,), 20)  # no sign of load
    clock.us += 250_000
    ask(router, USERS[15], 10)
    assert router.budget_per_second == pytest.approx(0.7 * full)
    for _ in range(6):
        sender.add(count.REQUESTS, (), 100)
        clock.us += 250_000
        ask(router, USERS[15], 10)
    assert router.budget_per_second == full
    sender.close()
    receiver.close()


def test_a_queue_too_long_lowers_the_budget(release: Path) -> None:
    """Insisting requests fill the high tier's queue for a second; who would have been in time is not any more."""
    clock = Clock()
    router = Router(Release.open(release), Counters(), now=clock)
    for _ in range(400):
        ask(router, USERS[15], 2000, tier="high")  # 250 tiles: 2.6 ms each
    assert ask(router, USERS[15], 50, deadline_us=clock.us + 100_000) == ("standard", "deadline")
    clock.us += 250_000
    ask(router, USERS[1], 10)
    assert router.budget_per_second == pytest.approx(700_000)


def test_instances_hear_the_same_reports_and_other_releases_nothing(release: Path, tmp_path: Path) -> None:
    first, second = LoadReceiver(release, 2), LoadReceiver(release, 2)
    (tmp_path / "other").mkdir()
    other = LoadReceiver(tmp_path / "other", 2)
    sender = LoadSender(release, 2)
    sender.add(count.REQUESTS, (), 5)
    heard: dict[str, list[tuple[float, float]]] = {"first": [], "second": [], "other": []}
    for name, receiver in (("first", first), ("second", second), ("other", other)):
        receiver.read(lambda requests, late, name=name: heard[name].append((requests, late)))
    assert heard == {"first": [(5.0, 0.0)], "second": [(5.0, 0.0)], "other": []}
    for end in (first, second, other, sender):
        end.close()


def test_reports_without_a_router_are_lost_and_a_full_queue_blocks_nobody(release: Path) -> None:
    sender = LoadSender(release, 1)
    sender.add(count.REQUESTS, (), 5)
    receiver = LoadReceiver(release, 1)
    for _ in range(5000):  # more than a socket holds
        sender.add(count.REQUESTS, (), 1)
    heard: list[float] = []
    receiver.read(lambda requests, _: heard.append(requests))
    assert 0 < len(heard) < 5000
    assert set(heard) == {1.0}
    sender.close()
    receiver.close()


def test_a_router_that_is_loaded_again_takes_over_the_address(release: Path) -> None:
    old, new, sender = LoadReceiver(release, 1), LoadReceiver(release, 1), LoadSender(release, 1)
    heard: list[float] = []
    sender.add(count.REQUESTS, (), 1)
    new.read(lambda requests, _: heard.append(requests))
    assert heard == []
    old.close()
    new.read(lambda requests, _: heard.append(requests))
    sender.add(count.REQUESTS, (), 2)
    new.read(lambda requests, _: heard.append(requests))
    assert heard == [2.0]
    new.close()
    sender.close()


def test_a_report_of_another_length_is_not_read(release: Path) -> None:
    receiver = LoadReceiver(release, 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"hello", f"\0triton_ads.load.{os.getppid()}.{release.resolve().name}.0")
    heard: list[float] = []
    receiver.read(lambda requests, _: heard.append(requests))
    assert heard == []
    receiver.close()


def test_a_release_without_the_model_is_refused(release: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(release, tmp_path / "release")
    shutil.rmtree(folder / "router")
    seal(folder, Release.open(release).recipe)
    with pytest.raises(ManifestError, match=r"router.kind is learned, and there is no router/gain.json"):
        Router(Release.open(folder), Counters())


def test_a_model_of_other_features_is_refused(release: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(release, tmp_path / "release")
    parameters = GainParameters.model_validate_json((folder / GAIN_FILE).read_text())
    names = ("something", *parameters.features[1:])
    (folder / GAIN_FILE).write_text(parameters.model_copy(update={"features": names}).model_dump_json())
    seal(folder, Release.open(release).recipe)
    with pytest.raises(GainError, match=r"different: .*something"):
        Router(Release.open(folder), Counters())
