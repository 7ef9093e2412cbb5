"""`rank` of both layouts in one process against the slow reference: values, edges, neighbours."""

import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.chain import Chain, Single
from tests.support.rank_reference import RankReference
from tests.support.tiny_release import ITEMS, USERS, tiny_recipe, write_tiny_release
from triton_ads.client.request import rank_inputs
from triton_ads.features.ids import raw_id
from triton_ads.recipe import parse_recipe
from triton_ads.serving import counters as count
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.release import Release
from triton_ads.serving.router_model import Router

#: Float32 sums in another order: tiles, batches and NumPy's reference differ in the last digits.
TOLERANCE = 1e-6
TIERS = ("standard", "high")
UNKNOWN_USER, HUGE = 7, 2**63 - 1


def items(n, first=ITEMS[0] - 3):
    """n candidates, some unknown, and duplicates where n is more than there are ads."""
    return first + np.arange(n) * 7 % 65


def check(answer, expected):
    """The same ranking; where two scores are nearly the same, their order may be the other."""
    assert not isinstance(answer, RequestError), answer
    order, expected_order = np.argsort(answer["positions"][0]), np.argsort(expected.positions)
    np.testing.assert_allclose(answer["scores"][0][order], expected.scores_NK[expected_order], rtol=0, atol=TOLERANCE)
    assert answer["ranked_ids"][0][order].tolist() == np.array(expected.ids, np.int64)[expected_order].tolist()
    assert np.all(np.diff(answer["rank_values"][0]) <= 0), "best first"
    np.testing.assert_allclose(
        answer["rank_values"][0][order], np.array(expected.rank_values)[expected_order], rtol=1e-5, atol=TOLERANCE
    )
    shapes = {name: (answer[name].dtype.kind, answer[name].shape) for name in ("ranked_ids", "scores", "positions")}
    n = len(expected.ids)
    assert (answer["rank_values"].dtype, answer["rank_values"].shape) == (np.float32, (1, n))
    assert shapes == {"ranked_ids": ("i", (1, n)), "scores": ("f", (1, n, 2)), "positions": ("i", (1, n))}
    assert (answer["scores"].dtype, answer["positions"].dtype) == (np.float32, np.int32)


@pytest.fixture
def chain(layout):
    return layout


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 31, 32, 33, 500, 2000])
def test_candidates_around_the_tile_and_beyond_the_largest_bucket(chain, reference, tier, n):
    inputs = rank_inputs(items(n), user_id=USERS[12], tier=tier)
    answer = chain.one(inputs)
    check(answer, reference.rank(inputs, tier))
    assert (answer["tier"].tolist(), answer["reason"].tolist()) == ([[tier.encode()]], [[b"insisted"]])


@pytest.mark.parametrize(
    ("tier", "user", "ranked_ids", "scores"),
    [
        ("standard", UNKNOWN_USER, [5, ITEMS[4]], [[0.2126886, 0.6965374], [0.50458175, 0.4826267]]),
        ("high", USERS[3], [ITEMS[4], 5], [[0.06968895, 0.44954836], [0.6688725, 0.08445984]]),
    ],
)
def test_literal_rankings(chain, tier, user, ranked_ids, scores):
    """Golden values. The second label ranks: by the first one both orders would be the other way round."""
    answer = chain.one(rank_inputs([5, ITEMS[4]], user_id=user, tier=tier))
    assert answer["ranked_ids"].tolist() == [ranked_ids]
    np.testing.assert_allclose(answer["scores"], [scores], rtol=0, atol=TOLERANCE)


def users():
    return {
        "known": {"user_id": USERS[15]},
        "known, no history": {"user_id": USERS[0]},
        "unknown": {"user_id": UNKNOWN_USER},
        "huge id": {"user_id": HUGE},
        "negative id": {"user_id": -(2**63)},
        "nothing sent": {},
        "features": {"user_features": [USERS[3], raw_id("loyal"), raw_id("city 3")], "user_dense": [0.5, -2.0]},
        "unknown features": {"user_features": [5, HUGE, -1]},
        "features over the store's": {"user_id": USERS[15], "user_features": [USERS[3], raw_id("new"), -1]},
        "dense over the store's": {"user_id": USERS[15], "user_dense": [9.0, -9.0]},
        "sequences": {"user_id": USERS[0], "sequences": [[[ITEMS[0], 1], [ITEMS[9], 2]], [ITEMS[5]]]},
        "sequences too long": {"sequences": [[[ITEMS[i], 1 + i % 6] for i in range(9)], list(ITEMS[:5])]},
        "empty sequences over the store's": {"user_id": USERS[15], "sequences": [[], []]},
        "unknown events": {"sequences": [[[4, 99], [-5, -1]], [HUGE]]},
        "context": {"user_id": USERS[15], "context_features": [raw_id("morning")], "context_dense": [0.25]},
        "unknown scenario": {"user_id": USERS[15], "context_features": [raw_id("noon")]},
        "missing scenario": {"user_id": USERS[15], "context_features": [-1]},
    }


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", users())
def test_users(chain, reference, tier, name):
    inputs = rank_inputs(items(20), tier=tier, **users()[name])
    check(chain.one(inputs), reference.rank(inputs, tier))


@pytest.mark.parametrize(
    "sent",
    [
        {"candidates": [ITEMS[0], 3], "item_features": [[ITEMS[1], 1, 2, -1], [8, 77, -1, -1]]},
        {"candidates": [ITEMS[0], 3], "item_dense": [[4.0], [-4.0]]},
        {"candidates": [4, 3], "item_features": [[4, 1, 2, -1], [3, -9, HUGE, -1]], "item_dense": [[1.0], [2.0]]},
        {"candidates": [3, HUGE, -1, -(2**63)]},
        {"candidates": [ITEMS[7]] * 20},
    ],
)
def test_items(chain, reference, sent):
    inputs = rank_inputs(user_id=USERS[12], tier="high", **sent)
    check(chain.one(inputs), reference.rank(inputs, "high"))


@pytest.fixture(scope="module")
def by_payout(tmp_path_factory):
    """Releases ranked by expressions, each with its reference."""
    found = {}
    for name, rank_by in {"product": "payout * (cvr + 0.5 * dcvr)", "log": "log(payout - 1) - price / cvr"}.items():
        recipe = tiny_recipe(rank_by, max_candidates=2000)
        folder = write_tiny_release(tmp_path_factory.mktemp("by_payout") / "release", recipe)
        found[name] = (Chain(folder), RankReference(folder, recipe))
    yield found
    for running, _ in found.values():
        running.close()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", ["product", "log"])
@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"candidates": []},
        {"item_values": np.linspace(0, 3, 30)},
        {"item_dense": np.linspace(-1, 1, 30), "item_values": np.zeros(30)},
        {"candidates": [3, ITEMS[0], 4], "item_values": [2.5, 0.5, 1.5]},  # two that only the request knows
    ],
)
def test_ranked_by_an_expression(by_payout, name, tier, sent):
    """Stored and sent values, unknown ads without one, logarithms of what is below 0."""
    running, reference = by_payout[name]
    running.counted()
    inputs = rank_inputs(**{"candidates": items(30), **sent}, user_id=USERS[12], tier=tier)
    answer = running.one(inputs)
    check(answer, reference.rank(inputs, tier))
    if not sent:
        lowest = np.finfo(np.float32).min
        unknown = [ad not in ITEMS or (ad - ITEMS[0]) % 7 == 0 for ad in answer["ranked_ids"][0].tolist()]
        assert sum(unknown) > 3
        assert all(value == lowest for value, last in zip(answer["rank_values"][0], unknown, strict=True) if last)
        without = int((answer["rank_values"] == lowest).sum())
        assert running.counted()[count.WITHOUT_VALUE, ()] == without


def test_requests_of_a_batch_rank_by_their_own_values(by_payout):
    running, reference = by_payout["product"]
    batch = [
        rank_inputs(items(n), user_id=USERS[12], tier="standard", item_values=np.arange(n) % k if k else None)
        for n, k in ((20, 3), (0, 0), (9, 0), (33, 7))
    ]
    for inputs, answer in zip(batch, running.rank(batch), strict=True):
        check(answer, reference.rank(inputs, "standard"))


def test_duplicates_and_ties_keep_the_order_of_the_request(chain):
    answer = chain.one(rank_inputs([5, ITEMS[3], 6, ITEMS[3], 7], user_id=USERS[4], tier="standard"))
    by_id = {id_: [] for id_ in (ITEMS[3], 0)}
    for id_, position in zip(answer["ranked_ids"][0].tolist(), answer["positions"][0].tolist(), strict=True):
        by_id[ITEMS[3] if id_ == ITEMS[3] else 0].append(position)
    assert by_id == {ITEMS[3]: [1, 3], 0: [0, 2, 4]}  # the unknown ones are equal, too


requests = st.builds(
    lambda n, first, user, tier, features: rank_inputs(
        items(n, first),
        user_id=user,
        tier=tier,
        user_features=[user, raw_id("loyal"), 5] if features else None,
        item_features=np.arange(n * 4) % 7 if features else None,
        context_dense=[first / 1000],
    ),
    n=st.integers(0, 70),
    first=st.integers(ITEMS[0] - 70, ITEMS[-1]),
    user=st.integers(USERS[0] - 2, USERS[-1] + 2),
    tier=st.sampled_from(TIERS),
    features=st.booleans(),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.lists(requests, min_size=1, max_size=10))
def test_any_batch_is_what_its_requests_are_alone(chain, reference, batch):
    for inputs, answer in zip(batch, chain.rank(batch), strict=True):
        check(answer, reference.rank(inputs, inputs["insisted_tier"][0, 0].decode()))


def test_64_requests_of_mixed_sizes_and_tiers_equal_each_alone(chain, reference):
    rng = np.random.default_rng(1)
    sizes = [0, 1, 7, 8, 9, 2000, *rng.integers(1, 400, 58)]
    batch = [
        rank_inputs(items(n, 990 + i), user_id=95 + i % 30, tier=TIERS[i % 2], context_dense=[i / 10])
        for i, n in enumerate(sizes)
    ]
    together = chain.rank(batch)
    counted = chain.counted()
    for inputs, answer in zip(batch, together, strict=True):
        alone = chain.one(inputs)
        tier = inputs["insisted_tier"][0, 0].decode()
        check(answer, reference.rank(inputs, tier))
        np.testing.assert_allclose(
            answer["scores"][0][np.argsort(answer["positions"][0])],
            alone["scores"][0][np.argsort(alone["positions"][0])],
            rtol=0,
            atol=TOLERANCE,
        )
    steps, grouping = (1, 1) if isinstance(chain, Single) else (3, 2)
    assert counted[count.BATCHES, ()] == steps
    assert counted[count.GROUPED, ("standard",)] == counted[count.GROUPED, ("high",)] == 32 * grouping
    assert counted[count.CANDIDATES, ("standard",)] + counted[count.CANDIDATES, ("high",)] == sum(sizes)


def good(**changed):
    return {**rank_inputs(items(5), user_id=USERS[3], tier="standard"), **changed}


def floats(*values):
    return np.array([values], np.float32)


def ids(*values):
    return np.array([values], np.int64)


BAD = {
    "too many candidates": ({"candidates": ids(*range(2001))}, Cause.TOO_MANY_CANDIDATES, "2001 found, at most 2000"),
    "user_features": (
        {"user_features": ids(1, 2)},
        Cause.WRONG_LENGTH,
        "user_features: length 2 found, 0 or 3 allowed",
    ),
    "user_dense": ({"user_dense": floats(1)}, Cause.WRONG_LENGTH, "user_dense: length 1 found, 0 or 2 allowed"),
    "context_features": (
        {"context_features": ids(1, 2)},
        Cause.WRONG_LENGTH,
        "context_features: length 2 found, 0 or 1",
    ),
    "context_dense": ({"context_dense": floats(1, 2)}, Cause.WRONG_LENGTH, "context_dense: length 2 found, 0 or 1"),
    "item_features": ({"item_features": ids(1)}, Cause.WRONG_LENGTH, "item_features: length 1 found, 0 or 20 allowed"),
    "item_dense": ({"item_dense": floats(1)}, Cause.WRONG_LENGTH, "item_dense: length 1 found, 0 or 5 allowed"),
    "item_values": ({"item_values": floats(1)}, Cause.WRONG_LENGTH, "item_values: length 1 found, 0 or 5 allowed"),
    "sequence count": ({"sequence_lengths": np.array([[1]], np.int32)}, Cause.WRONG_LENGTH, "length 1 found, 0 or 2"),
    "negative length": (
        {"sequence_lengths": np.array([[-1, 0]], np.int32)},
        Cause.WRONG_LENGTH,
        r"sequence_lengths: \[-1, 0\] found",
    ),
    "lengths and sequences": (
        {"sequence_lengths": np.array([[2, 1]], np.int32), "sequences": ids(1, 2, 3)},
        Cause.WRONG_LENGTH,
        r"sequences: .*\[3\] found, int64 of shape \[5\] needed",
    ),
    "sequences without lengths": (
        {"sequences": ids(1, 2, 3)},
        Cause.WRONG_LENGTH,
        "sequence_lengths: 0 found, 2 needed",
    ),
    "NaN": ({"user_dense": floats(0, np.nan)}, Cause.NOT_FINITE, "user_dense: nan found at position 1"),
    "infinite context": ({"context_dense": floats(np.inf)}, Cause.NOT_FINITE, "context_dense: inf found at position 0"),
    "infinite item": (
        {"item_dense": floats(0, 0, -np.inf, np.nan, 0)},
        Cause.NOT_FINITE,
        "item_dense: -inf found at position 2",
    ),
    "value that is no number": (
        {"item_values": floats(0, np.nan, 0, 0, 0)},
        Cause.NOT_FINITE,
        "item_values: nan found at position 1",
    ),
    "unknown tier": (
        {"insisted_tier": np.array([[b"ultra"]], np.object_)},
        Cause.UNKNOWN_TIER,
        "'ultra' found, standard, high or empty",
    ),
    "no text": (
        {"insisted_tier": np.array([[b"\xff"]], np.object_)},
        Cause.UNKNOWN_TIER,
        "found, standard, high or empty",
    ),
    "deadline": ({"deadline_us": ids(1)}, Cause.DEADLINE, "deadline exceeded: it passed .* ms ago"),
    "negative deadline": ({"deadline_us": ids(-5)}, Cause.DEADLINE, "deadline exceeded"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused_and_counted_and_its_neighbours_are_answered(chain, name):
    changed, cause, message = BAD[name]
    alone = chain.one(good())
    chain.counted()
    before, bad, after = chain.rank([good(), good(**changed), good()])
    counted = chain.counted()
    assert isinstance(bad, RequestError)
    assert bad.cause is cause
    with pytest.raises(RequestError, match=message):
        raise bad
    assert {labels: n for (metric, labels), n in counted.items() if metric is count.REFUSED} == {(cause,): 1}
    for neighbour in (before, after):
        for output in ("ranked_ids", "positions", "tier", "reason", "release"):
            np.testing.assert_array_equal(neighbour[output], alone[output])
        np.testing.assert_allclose(neighbour["scores"], alone["scores"], rtol=0, atol=TOLERANCE)


def test_a_deadline_in_time(chain):
    answer = chain.one(rank_inputs(items(3), user_id=USERS[3], deadline_us=time.time_ns() // 1000 + 5_000_000))
    assert answer["ranked_ids"].shape == (1, 3)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"user_id": UNKNOWN_USER}, {(count.COLD_STARTS, ()): 1, (count.SCENARIO_DEFAULTS, ()): 1}),
        ({}, {(count.COLD_STARTS, ()): 1, (count.SCENARIO_DEFAULTS, ()): 1}),
        ({"user_features": [5, 6, 7]}, {(count.OOV, ("user",)): 2, (count.SCENARIO_DEFAULTS, ()): 1}),
        ({"user_id": USERS[0], "context_features": [raw_id("morning")]}, {}),
        (
            {"user_id": USERS[0], "context_features": [raw_id("morning")], "sequences": [[[1, 1]] * 6, [2]]},
            {(count.OOV, ("sequence",)): 5, (count.TRUNCATED, ()): 2},
        ),
        (
            {"user_id": USERS[0], "context_features": [raw_id("morning")], "candidates": [1, ITEMS[0], 2]},
            {(count.UNKNOWN_ITEMS, ()): 2},
        ),
        (
            {"user_id": USERS[0], "context_features": [raw_id("morning")], "item_features": [[ITEMS[0], 1, 77, -1]]},
            {(count.OOV, ("item",)): 1},
        ),
    ],
)
def test_what_is_unknown_is_counted(chain, inputs, expected):
    chain.one(rank_inputs(**{"candidates": [ITEMS[0]], **inputs}))
    watched = {count.OOV, count.COLD_STARTS, count.SCENARIO_DEFAULTS, count.TRUNCATED, count.UNKNOWN_ITEMS}
    assert {key: n for key, n in chain.counted().items() if key[0] in watched} == expected


def test_tiles_buckets_and_choices_are_counted(chain):
    """17 and 3 candidates: P = 8, 3 + 1 tiles, one run in the bucket of 4; then 40 candidates, 5 tiles, two runs."""
    ask = [rank_inputs(items(n), user_id=USERS[0]) for n in (17, 3)]
    chain.rank(ask)
    counted = chain.counted()
    standard = ("standard",)
    assert counted[count.CANDIDATES, standard] == 20
    assert counted[count.SLOTS, standard] == 32
    assert counted[count.BUCKET_HITS, ("standard", "4")] == 1
    assert counted[count.CHOICES, ("standard", "short_history")] == 2
    assert counted[count.ENGINE_SECONDS, standard] > 0
    chain.one(rank_inputs(items(40), user_id=USERS[19]))
    counted = chain.counted()
    assert counted[count.BUCKET_MISSES, ("high", "over_largest")] == 1
    assert (counted[count.BUCKET_HITS, ("high", "4")], counted[count.BUCKET_HITS, ("high", "1")]) == (1, 1)
    assert counted[count.CHOICES, ("high", "worthwhile")] == 1


@pytest.mark.parametrize(
    ("inputs", "tier", "reason"),
    [
        ({"user_id": USERS[19]}, "high", "worthwhile"),
        ({"user_id": USERS[5]}, "high", "worthwhile"),
        ({"user_id": USERS[4]}, "standard", "short_history"),
        ({"user_id": USERS[19], "sequences": [[[ITEMS[0], 1]], []]}, "standard", "short_history"),
        ({"sequences": [[[ITEMS[0], 1]] * 5, []]}, "high", "worthwhile"),
        ({"user_id": USERS[19], "candidates": items(51)}, "standard", "many_candidates"),
        ({"user_id": USERS[19], "candidates": []}, "standard", "no_candidates"),
    ],
)
def test_the_router_s_choice(chain, inputs, tier, reason):
    answer = chain.one(rank_inputs(**{"candidates": items(10), **inputs}))
    assert (answer["tier"][0, 0].decode(), answer["reason"][0, 0].decode()) == (tier, reason)


def test_the_budget_turns_a_flood_to_the_default_tier(release_folder):
    """4,000 candidates a second, 50 a request: at one moment the high tier takes 80 requests, 0.1 s later 8 more."""
    clock = [1_000_000]
    router = Router(Release.open(release_folder), Counters(), now=lambda: clock[0])
    request = router.parse(rank_inputs(items(50), user_id=USERS[19]))

    def reasons(n):
        return [router.answer([request])[0]["reason"][0, 0] for _ in range(n)]

    assert reasons(81) == [b"worthwhile"] * 80 + [b"budget"]
    clock[0] += 100_000
    assert reasons(9) == [b"worthwhile"] * 8 + [b"budget"]


def test_requests_stand_in_line_for_the_high_tier(release_folder):
    """50 candidates take 0.05 + 0.05 + 7 x 0.01 = 0.17 ms; with 0.9 ms left, twice the wait fits for two of them."""
    clock = [1_000_000]
    router = Router(Release.open(release_folder), Counters(), now=lambda: clock[0])

    def reasons(n, tier=""):
        inputs = rank_inputs(items(50), user_id=USERS[19], deadline_us=clock[0] + 900, tier=tier)
        return [answer["reason"][0, 0] for answer in router.answer([router.parse(inputs)] * n)]

    assert reasons(4) == [b"worthwhile", b"worthwhile", b"deadline", b"deadline"]
    clock[0] += 170  # one of them is done
    assert reasons(2) == [b"worthwhile", b"deadline"]
    clock[0] += 340  # both are
    assert reasons(2, tier="high") == [b"insisted"] * 2
    assert reasons(1) == [b"deadline"]  # 0.34 ms ahead, and its own 0.17


def test_the_high_tier_answers_only_in_its_scenarios(tmp_path):
    """An unknown scenario, or none, is answered as the default one: evening."""
    document = tiny_recipe().model_dump(mode="json")
    document["router"]["high_scenarios"] = ["evening"]
    folder = write_tiny_release(tmp_path / "release", parse_recipe(document))
    router = Router(Release.open(folder), Counters())

    def reason(context):
        request = router.parse(rank_inputs(items(10), user_id=USERS[19], context_features=context))
        return router.answer([request])[0]["reason"][0, 0]

    assert reason([raw_id("evening")]) == b"worthwhile"
    assert reason([raw_id("morning")]) == b"context"
    assert reason([raw_id("no such scenario")]) == b"worthwhile"
    assert reason(None) == b"worthwhile"


def test_a_score_that_is_no_number_is_refused_and_its_neighbour_is_answered(chain, monkeypatch):
    """What a model makes of a huge dense value: infinity less infinity."""
    items = chain.service._items if isinstance(chain, Single) else chain.scorer._items
    score = items._tiers[0].score

    def overflowing(states, lengths, item_ids_MF, item_dense_MD):
        scores_MK = score(states, lengths, item_ids_MF, item_dense_MD)
        scores_MK[item_dense_MD[:, 0] > 1e38] = np.nan
        return scores_MK

    monkeypatch.setattr(items._tiers[0], "score", overflowing)
    huge = {"item_dense": floats(1, 2, 3e38, 4, 5), "insisted_tier": np.array([[b"standard"]], np.object_)}
    neighbour, bad = chain.rank([good(), good(**huge)])
    assert isinstance(bad, RequestError)
    assert bad.cause is Cause.NOT_FINITE
    assert "scores: not finite for the candidate at position 2" in str(bad)
    assert np.isfinite(neighbour["scores"]).all()
