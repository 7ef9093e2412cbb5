"""The synthetic world: equal to the plain reference, the same in any chunks, and with what was planted in it."""

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.synthetic_reference import reference
from triton_ads.data import Examples
from triton_ads.data.log import Log
from triton_ads.data.prepare import prepare
from triton_ads.data.synthetic import read, world
from triton_ads.data.synthetic.beliefs import expected, fade, learn
from triton_ads.data.synthetic.draws import Purpose, _mix, uniform
from triton_ads.data.synthetic.journeys import journeys
from triton_ads.data.synthetic.world import Items, Users, interest_share
from triton_ads.data.truth import load_truth
from triton_ads.features.ids import raw_id
from triton_ads.recipe import load_recipe
from triton_ads.training.measures import auc

RECIPE = Path(__file__).parents[2] / "build" / "recipes" / "synthetic.yaml"


@dataclass(frozen=True)
class Size:
    users: int = 40
    items: int = 60
    events: int = 900
    days: int = 30
    seed: int = 0
    members: float = 0.2
    member_events: float = 0.6


@pytest.fixture(scope="module")
def log() -> Log:
    """The default size of a recipe."""
    return read(Size(users=24_000, items=300, events=260_000, days=60, members=0.1, member_events=0.65))


sizes = st.builds(
    Size,
    users=st.integers(5, 60),
    items=st.integers(1, 80),
    events=st.integers(1, 400),
    days=st.integers(1, 90),
    seed=st.integers(0, 2**32 - 1),
    members=st.sampled_from([0.2, 0.5]),
    member_events=st.sampled_from([0.0, 0.4, 1.0]),
)


def check_equal(size: Size) -> None:
    log, expected = read(size), reference(size)
    assert log.time.tolist() == [e["time"] for e in expected]
    assert log.user_ids[log.user].tolist() == [e["user_id"] for e in expected]
    assert log.event_fields["item_id"].tolist() == log.item_ids[log.item].tolist() == [e["item_id"] for e in expected]
    topics, placements = ([raw_id(name) for name in names] for names in (world.TOPICS, world.PLACEMENTS))
    assert log.event_fields["topic"].tolist() == [topics[e["topic"]] for e in expected]
    assert log.event_fields["placement"].tolist() == [placements[e["placement"]] for e in expected]
    assert log.context_columns["placement"][:, 0].tolist() == log.event_fields["placement"].tolist()
    assert log.event_fields["action"].tolist() == [e["action"] for e in expected]
    for label, least in (("cvr", 3), ("dcvr", 4)):
        assert log.labels[label].tolist() == [float(e["action"] >= least) for e in expected]
    assert log.sequences["clicks"].tolist() == [e["action"] >= 2 for e in expected]
    assert log.sequences["conversions"].tolist() == [e["action"] >= 3 for e in expected]
    for name, values in log.truth.items():
        # Kept as float32: half a unit of its last place of a value below 1.
        np.testing.assert_allclose(values, [e[name] for e in expected], rtol=2**-23, atol=0, err_msg=name)


def test_equals_the_reference() -> None:
    check_equal(Size())


@settings(max_examples=25)
@given(sizes)
def test_equals_the_reference_at_any_size(size: Size) -> None:
    check_equal(size)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_the_same_in_any_chunks(chunk: int) -> None:
    size = Size(users=300, events=5000)
    items, users = Items.of(size), Users.of(size)
    whole, parts = journeys(size, items, users), journeys(size, items, users, chunk)
    for field in fields(whole):
        assert getattr(whole, field.name).tobytes() == getattr(parts, field.name).tobytes(), field.name


def test_a_seed_makes_one_world() -> None:
    one, same, other = read(Size()), read(Size()), read(Size(seed=1))
    assert (one.time == same.time).all() and (one.truth["cvr"] == same.truth["cvr"]).all()
    assert (one.time != other.time).any() and (one.truth["cvr"] != other.truth["cvr"]).any()


def test_draws() -> None:
    """The first outputs of splitmix64 from state 0 are known: e220a8397b1dcdaf, 6e789e6aa1b965f4, ..."""
    states = np.array([0, 0x9E3779B97F4A7C15], dtype=np.uint64)
    assert [hex(v) for v in _mix(states).tolist()] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4"]
    who = np.arange(100_000)
    draws = np.stack([uniform(3, purpose, who, which) for purpose in (Purpose.TIME, Purpose.CVR) for which in (0, 1)])
    assert draws.min() >= 0 and draws.max() < 1
    # Standard errors over 100,000 draws: of a mean 0.0009, of a correlation 0.003.
    assert draws.mean(axis=1) == pytest.approx(0.5, abs=0.004)
    assert np.abs(np.corrcoef(draws) - np.eye(4)).max() < 0.015
    assert abs(np.corrcoef(draws[:, :-1], draws[:, 1:])[:4, 4:]).max() < 0.015


def test_worked_filter() -> None:
    belief, share = np.array([0.5]), np.array([0.1])
    assert fade(belief, share, np.array([0.0])).tolist() == [0.5]
    assert fade(belief, share, np.array([world.INTEREST_DAYS * np.log(2)]))[0] == pytest.approx(0.3)
    cvr, deep = np.array([[0.1, 0.4]]), np.array([[0.25, 0.5]])
    yes, no = np.array([True]), np.array([False])
    # 0.5 * 0.4 * 0.5 against 0.5 * 0.1 * 0.25
    assert learn(belief, cvr, deep, yes, yes, yes)[0] == pytest.approx(8 / 9)
    assert learn(belief, cvr, deep, yes, yes, no)[0] == pytest.approx(0.2 / 0.275)
    # A click without conversion: 0.6 * 0.7 against 0.9 * 0.05; nothing: 0.6 * 0.3 against 0.9 * 0.95
    assert learn(belief, cvr, deep, yes, no, no)[0] == pytest.approx(0.42 / (0.42 + 0.045))
    assert learn(belief, cvr, deep, no, no, no)[0] == pytest.approx(0.18 / (0.18 + 0.855))
    assert expected(np.array([0.2]), cvr)[0] == pytest.approx(0.16)


def test_sizes_are_what_was_asked_for(log: Log) -> None:
    assert len(log) == 260_000 and len(log.user_ids) == 24_000 and len(log.item_ids) == 300
    assert np.all(np.diff(log.time) >= 0)
    assert log.time[0] >= world.START and log.time[-1] < world.START + 60 * world.DAY + 300
    per_user = np.bincount(log.user, minlength=24_000)
    members = np.arange(24_000) % 10 == 9
    assert per_user[members].sum() == pytest.approx(169_000, rel=0.001)
    assert per_user[members].mean() > 9 * per_user[~members].mean()
    # No two events of a user in one second: each is known before the next.
    order = np.lexsort((log.time, log.user))
    same = np.diff(log.user[order]) == 0
    assert np.all(np.diff(log.time[order])[same] > 0)


def test_labels_are_drawn_with_the_chances_given(log: Log) -> None:
    """Whatever knows more is honest as well: in every tenth of a prediction the labels have its mean."""
    for label in ("cvr", "dcvr"):
        for name in (f"cold_{label}", label, f"hidden_{label}"):
            chance, y = log.truth[name].astype(np.float64), log.labels[label]
            for tenth in np.array_split(np.argsort(chance), 10):
                error = np.sqrt((chance[tenth] * (1 - chance[tenth])).mean() / len(tenth))
                assert abs(y[tenth].mean() - chance[tenth].mean()) < 4 * error, name
    assert log.labels["cvr"].mean() == pytest.approx(0.281, abs=0.01)
    assert log.labels["dcvr"].mean() == pytest.approx(0.134, abs=0.01)
    assert np.all(log.labels["dcvr"] <= log.labels["cvr"])


def test_what_can_be_known(log: Log) -> None:
    """On the last tenth: the journey tells much where requests are hard and little elsewhere."""
    test = np.arange(len(log)) >= 0.9 * len(log)
    hard = log.truth["hard"] > 0
    assert hard.mean() == pytest.approx(0.56, abs=0.02) and hard[test].mean() == pytest.approx(0.72, abs=0.02)
    found = {
        (kind, name): auc(log.labels["cvr"][rows], log.truth[name][rows])
        for kind, rows in (("hard", test & hard), ("easy", test & ~hard))
        for name in ("cold_cvr", "cvr", "hidden_cvr")
    }
    assert found["hard", "cvr"] - found["hard", "cold_cvr"] > 0.08
    assert 0 < found["easy", "cvr"] - found["easy", "cold_cvr"] < 0.045
    assert found["hard", "hidden_cvr"] - found["hard", "cvr"] > 0.04
    # How often an ad was shown before is a prediction that anyone can make.
    shown = np.bincount(log.item[~test], minlength=300)[log.item]
    for kind, rows in (("hard", test & hard), ("easy", test & ~hard)):
        popular = auc(log.labels["cvr"][rows], shown[rows])
        assert 0.51 < popular < found[kind, "cold_cvr"] - 0.05


def test_popularity() -> None:
    """Exposure by popular draws is Zipf's, and popular ads are better."""
    size = Size(items=2_000)
    items = Items.of(size)
    uniform_n = (np.arange(100_000) + 0.5) / 100_000
    drawn = items.draw(np.full(100_000, -1), uniform_n)
    share = np.bincount(items.id_I[drawn], minlength=2_001)[1:11] / 100_000
    weight = np.arange(1, 2_001.0) ** -world.ZIPF
    assert share == pytest.approx(weight[:10] / weight.sum(), abs=2e-5)
    topic = items.draw(np.full(1000, 3), np.linspace(0, 1, 1000, endpoint=False))
    assert set(items.topic_I[topic]) == {3}
    rank_of = np.empty(2_000)
    rank_of[items.id_I - 1] = items.quality_I
    assert rank_of[:200].mean() > rank_of[-200:].mean() + 0.3


def test_interests_drift() -> None:
    """An interest lasts or not as the filter takes it to, the less the longer ago it was."""
    size = Size(users=2_000, items=500, events=60_000, days=60, members=1.0, member_events=1.0)
    found = journeys(size, Items.of(size), Users.of(size))
    topic = Items.of(size).topic_I[found.item]
    order = np.lexsort((found.time, topic, found.user))
    pair = (np.diff(found.user[order]) == 0) & (np.diff(topic[order]) == 0)
    days = np.diff(found.time[order])[pair] / world.DAY
    before, after = found.interested[order][:-1][pair], found.interested[order][1:][pair]
    share = interest_share()[Users.of(size).age_U[found.user[order][1:][pair]], topic[order][1:][pair]]
    for low, high in ((0, 2), (2, 8), (8, 20), (20, 60)):
        rows = before & (days >= low) & (days < high)
        expected = (share + (1 - share) * np.exp(-days / world.INTEREST_DAYS))[rows].mean()
        assert after[rows].mean() == pytest.approx(expected, abs=4 * np.sqrt(0.25 / rows.sum()))
    # Several interests at once.
    assert interest_share().sum(axis=1) == pytest.approx(3, abs=0.5)


def test_placements_differ_and_shift(log: Log) -> None:
    placements = [raw_id(name) for name in world.PLACEMENTS]
    found = log.event_fields["placement"]
    first, last = found[:20_000], found[-20_000:]
    at = ((log.time - world.START) / (60 * world.DAY))[:, None]
    shares = world.PLACEMENT_SHARES[0] + (world.PLACEMENT_SHARES[1] - world.PLACEMENT_SHARES[0]) * at
    for p, name in enumerate(placements):
        for part, rows in ((first, slice(0, 20_000)), (last, slice(-20_000, None))):
            assert (part == name).mean() == pytest.approx(shares[rows, p].mean(), abs=0.015)  # 4 standard errors
    rate = [log.labels["cvr"][found == name].mean() for name in placements]
    assert rate == pytest.approx([0.281, 0.351, 0.181, 0.336], abs=0.015)


def test_an_interest_counts_differently_at_each_placement() -> None:
    size = Size(users=2_000, items=500, events=60_000, days=60, members=1.0, member_events=1.0)
    found = journeys(size, Items.of(size), Users.of(size))
    gain = []
    for placement in range(len(world.PLACEMENTS)):
        here = found.placement == placement
        gain.append(found.converted[here & found.interested].mean() - found.converted[here & ~found.interested].mean())
    feed, search, story, checkout = gain
    assert search > feed > story > 0.15 and checkout < -0.15


def test_the_recipe_builds_examples_with_the_truth_beside_them(tmp_path: Path) -> None:
    recipe = load_recipe(RECIPE)
    small = recipe.model_copy(update={"data": recipe.data.model_copy(update={"users": 500, "events": 4000})})
    prepare(small, tmp_path, tmp_path / "downloads")
    assert not (tmp_path / "downloads").exists()
    examples, truth = Examples.load(small, tmp_path / "examples"), load_truth(tmp_path / "truth")
    assert {name: values.shape for name, values in truth.items()} == dict.fromkeys(
        ["cold_cvr", "cold_dcvr", "cvr", "dcvr", "hard", "hidden_cvr", "hidden_dcvr"], (4000,)
    )
    batch = examples.batch(examples.part("test"))
    assert batch.labels[:, 0].mean() == pytest.approx(truth["cvr"][examples.part("test")].mean(), abs=0.09)
    assert batch.inputs["sequence_ids"].shape == (len(batch.labels), recipe.sequence_width)
    assert (batch.inputs["sequence_ids"] >= 2).any()
