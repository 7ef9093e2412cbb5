"""Every row of "Answers to bad input" of docs/wire.md, through the real server and both protocols."""

import contextlib
import json
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest

from tests.conftest import MAX_CANDIDATES
from tests.support.tiny_release import ITEMS, USERS, rows_of, tiny_scores
from triton_ads.client import RankClient, RankError, ServerUnavailableError
from triton_ads.client.request import json_body, rank_inputs
from triton_ads.features.ids import OOV, raw_id
from triton_ads.server.metrics import settled_metric

KNOWN, UNKNOWN, HUGE = list(ITEMS[:5]), [5, 6, 7], 2**62
USER = USERS[10]
ANY_USER = [USER, raw_id("loyal"), raw_id("city 3")]
CONTEXT = [raw_id("morning")]
TIER = "standard"  # the answers of both tiers differ, so the tests insist on one


def ask(client, candidates=KNOWN, **arguments):
    return client.rank(candidates, tier=TIER, **arguments)


def nearly_same(one, other):
    """As `same`, up to what float32 loses where a sum is taken in another order: another batch is another tile."""
    np.testing.assert_allclose(by_position(one), by_position(other), rtol=0, atol=1e-6)
    np.testing.assert_allclose(one.label("dcvr"), np.sort(one.label("dcvr"))[::-1])


def by_position(ranking):
    """Scores [N, K] in the order of the request."""
    return ranking.scores[np.argsort(ranking.positions)]


def send(client, model="rank", **tensors):
    """Send tensors as they are, in the place of the right ones."""
    return client.transport.infer(model, {**rank_inputs(KNOWN, user_id=USER), **tensors}, 30)


def same(one, other):
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.positions, other.positions)
    np.testing.assert_array_equal(one.scores, other.scores)


def counted(server, name, **labels):
    return settled_metric(server.metrics_url, f"triton_ads_{name}_total", **labels)


def refused(server, cause):
    return counted(server, "refused", cause=cause)


def test_no_candidates_are_an_empty_ranking(client):
    ranking = ask(client, [], user_id=USER)
    assert (ranking.ids.shape, ranking.scores.shape, ranking.positions.shape) == ((0,), (0, 2), (0,))
    assert ranking.tier == TIER


def test_more_candidates_than_the_limit(client, server):
    assert len(ask(client, np.arange(MAX_CANDIDATES), user_id=USER)) == MAX_CANDIDATES
    before = refused(server, "too_many_candidates")
    with pytest.raises(RankError, match=f"candidates: {MAX_CANDIDATES + 1} found, at most {MAX_CANDIDATES} allowed"):
        ask(client, np.arange(MAX_CANDIDATES + 1), user_id=USER)
    assert refused(server, "too_many_candidates") == before + 1


@pytest.mark.parametrize(
    ("tensor", "found", "allowed"),
    [
        ("user_features", 2, "0 or 3"),
        ("user_dense", 3, "0 or 2"),
        ("context_features", 2, "0 or 1"),
        ("context_dense", 2, "0 or 1"),
        ("item_features", 19, "0 or 20"),
        ("item_dense", 6, "0 or 5"),
    ],
)
def test_a_wrong_length_names_the_tensor_the_length_and_those_allowed(client, server, tensor, found, allowed):
    before = refused(server, "wrong_length")
    with pytest.raises(RankError, match=f"{tensor}: length {found} found, {allowed} allowed") as raised:
        ask(client, user_id=USER, **{tensor: np.ones(found, np.int64)})
    assert raised.value.status in ("INVALID_ARGUMENT", "400")
    assert refused(server, "wrong_length") == before + 1


def test_a_wrong_number_of_sequences(client):
    with pytest.raises(RankError, match="sequence_lengths: length 1 found, 0 or 2 allowed"):
        ask(client, user_id=USER, sequences=[[[1000, 1]]])


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"candidates": np.ones((1, 5), np.float32)}, "FP32"),
        ({"candidates": np.ones((1, 5), np.int32)}, "INT32"),
        ({"user_dense": np.ones((1, 2), np.float64)}, "FP64"),
        ({"candidates": np.ones((1, 5, 1), np.int64)}, "candidates"),
        ({"user_id": np.ones((1, 2), np.int64)}, "user_id"),
        ({"user_id": np.ones((2, 1), np.int64)}, "batch"),
    ],
)
def test_a_wrong_dtype_or_rank_is_refused_by_triton_itself(client, tensors, message):
    with pytest.raises(RankError, match=message):
        send(client, **tensors)


def test_an_input_that_is_missing_is_refused_by_triton_itself(client):
    inputs = rank_inputs(KNOWN, user_id=USER)
    del inputs["sequences"]
    with pytest.raises(RankError, match=r"expected 12 inputs but got 11|'sequences'|12"):
        client.transport.infer("rank", inputs, 30)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("tensor", "length", "at"), [("user_dense", 2, 1), ("context_dense", 1, 0), ("item_dense", 5, 3)]
)
def test_a_value_that_is_not_finite_names_the_tensor_and_the_position(client, tensor, length, at, value):
    values = np.zeros(length, np.float32)
    values[at:] = value
    with pytest.raises(RankError, match=f"{tensor}: {value} found at position {at}"):
        ask(client, user_id=USER, **{tensor: values})


@pytest.mark.parametrize("user_id", [999_999, -77, -(2**63), 2**63 - 1])
def test_an_unknown_user_is_a_cold_start_and_counted(client, server, recipe, user_id):
    before = counted(server, "cold_starts")
    ranking = ask(client, user_id=user_id, item_features=np.full((5, 4), -1), item_dense=np.zeros(5))
    assert counted(server, "cold_starts") == before + 1
    # Every id of the user OOV, the scenario its default, no history, no dense value.
    expected = tiny_scores(
        recipe,
        TIER,
        np.array([OOV, OOV, OOV, rows_of(recipe, "daypart", np.array([raw_id("evening")]))[0]]),
        np.zeros(3, np.float32),
        np.zeros(recipe.sequence_width, np.int64),
        np.zeros((5, 4), np.int64),
        np.zeros((5, 1), np.float32),
    )
    np.testing.assert_allclose(ranking.scores, expected, rtol=1e-6)  # float32 sums in another order
    same(ranking, ask(client, item_features=np.full((5, 4), -1), item_dense=np.zeros(5)))


def test_an_unknown_ad_is_scored_as_an_oov_item_and_counted(client, server, recipe):
    before = counted(server, "unknown_items")
    ranking = ask(client, [*UNKNOWN, KNOWN[0], HUGE], user_id=USER)
    assert counted(server, "unknown_items") == before + 4
    scores = dict(ranking)
    for ad in (*UNKNOWN, HUGE):
        np.testing.assert_array_equal(scores[ad], scores[UNKNOWN[0]])
    assert not np.array_equal(scores[KNOWN[0]], scores[UNKNOWN[0]])
    # An ad of which only the id is known to be unknown, and no dense value.
    described = ask(client, [5], user_id=USER, item_features=[[HUGE] * 4], item_dense=[0.0])
    np.testing.assert_array_equal(described.scores[0], scores[UNKNOWN[0]])


@pytest.mark.parametrize("odd", [-2, -(2**63), 2**63 - 1, 12345])
def test_any_other_unknown_negative_or_huge_id_is_oov_and_counted(client, server, odd):
    known = ask(client, user_features=ANY_USER, user_dense=[0.5, 0.5], context_features=CONTEXT)
    before = counted(server, "oov_ids")
    one = ask(client, user_features=[odd, *ANY_USER[1:]], user_dense=[0.5, 0.5], context_features=CONTEXT)
    assert counted(server, "oov_ids") >= before + 1
    another = ask(client, user_features=[77, *ANY_USER[1:]], user_dense=[0.5, 0.5], context_features=CONTEXT)
    same(one, another)
    assert not np.array_equal(one.scores, known.scores)


@pytest.mark.parametrize("scenario", [[HUGE], [-1], [raw_id("no such daypart")], None])
def test_an_unknown_scenario_is_answered_as_the_default_and_counted(client, server, scenario):
    before = counted(server, "scenario_defaults")
    one = ask(client, user_id=USER, context_features=scenario)
    assert counted(server, "scenario_defaults") == before + 1
    same(one, ask(client, user_id=USER, context_features=[raw_id("evening")]))
    assert not np.array_equal(one.scores, ask(client, user_id=USER, context_features=CONTEXT).scores)


def test_of_a_sequence_that_is_too_long_the_most_recent_events_are_used_and_the_rest_counted(client, server):
    events = [[1000 + i, 1 + i % 6] for i in range(9)]
    clicks = [[1001], [1002]]
    before = counted(server, "truncated_events")
    long = ask(client, user_id=USER, sequences=[events, clicks])
    assert counted(server, "truncated_events") == before + 5
    same(long, ask(client, user_id=USER, sequences=[events[:4], clicks]))
    assert not np.array_equal(long.scores, ask(client, user_id=USER, sequences=[events[5:], clicks]).scores)


@pytest.mark.parametrize(
    ("lengths", "ids", "numbers"),
    [([2, -1], 4, ("-1",)), ([2, 1], 4, ("5", "4")), ([0, 0], 3, ("0", "3")), ([], 3, ("0 found", "2 needed"))],
)
def test_lengths_that_make_no_sense_name_both_numbers(client, lengths, ids, numbers):
    with pytest.raises(RankError, match="sequence") as raised:
        send(client, sequence_lengths=np.array([lengths], np.int32), sequences=np.full((1, ids), 1000))
    assert all(number in str(raised.value) for number in numbers)


def test_duplicates_are_each_ranked_in_the_order_of_the_request(client):
    ranking = ask(client, [1000, 1001, 1000, 1002, 1000], user_id=USER)
    assert sorted(ranking.ids.tolist()) == [1000, 1000, 1000, 1001, 1002]
    assert ranking.positions[ranking.ids == 1000].tolist() == [0, 2, 4]
    once = dict(ask(client, [1000, 1001, 1002], user_id=USER))
    for ad, scores in ranking:
        np.testing.assert_array_equal(scores, once[ad])


def test_a_deadline_that_has_passed_says_by_how_much(client, server):
    before = refused(server, "deadline_exceeded")
    with pytest.raises(RankError, match=r"deadline exceeded: it passed \d+\.\d ms ago"):
        send(client, deadline_us=np.array([[1_000_000]], np.int64))
    assert refused(server, "deadline_exceeded") == before + 1


def test_an_unknown_tier_names_those_that_there_are(client):
    with pytest.raises(RankError, match="insisted_tier: 'gold' found, standard, high or empty allowed"):
        client.rank(KNOWN, user_id=USER, tier="gold")


def test_of_a_tier_of_any_length_the_first_60_characters_are_sent_back(client):
    with pytest.raises(RankError) as raised:
        client.rank(KNOWN, user_id=USER, tier="x" * 100_000)
    assert f"insisted_tier: '{'x' * 59}... found, standard, high or empty allowed" in str(raised.value)
    assert len(str(raised.value)) < 200


def test_several_users_in_one_request_are_refused(client, server):
    two = {name: np.concatenate([array, array]) for name, array in rank_inputs(KNOWN, user_id=USER).items()}
    before = refused(server, "wrong_length")
    with pytest.raises(RankError, match="first dimension 2 found, 1 allowed") as raised:
        client.transport.infer("rank", two, 30)
    assert raised.value.status in ("INVALID_ARGUMENT", "400")
    assert refused(server, "wrong_length") == before + 1


def posted(server, body):
    """The HTTP status and the text of the answer."""
    try:
        with urllib.request.urlopen(
            f"http://{server.http_url}/v2/models/rank/infer", body.encode(), timeout=10
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_choice_of_the_tier_alone_cannot_be_asked_for_of_an_ensemble(server, ensemble_server):
    body = json.loads(json_body(rank_inputs(KNOWN, user_id=USER)))
    chosen = [{"name": "tier"}, {"name": "reason"}]
    assert posted(server, json.dumps({**body, "outputs": chosen}))[0] == 200
    status, text = posted(ensemble_server, json.dumps({**body, "outputs": chosen}))
    assert (status, "unexpected deadlock" in text) == (400, True)
    for further in ("ranked_ids", "scores", "rank_values", "positions", "release"):
        assert posted(ensemble_server, json.dumps({**body, "outputs": [*chosen, {"name": further}]}))[0] == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("nope", 500),
        ("{}", 500),
        ('{"inputs": 3}', 500),
        ('{"inputs": [{"name": "user_id", "datatype": "INT64", "shape": [1, 1], "data": ["x"]}]}', 500),
        ('{"inputs": [{"name": "user_id", "datatype": "INT64", "shape": "x", "data": [1]}]}', 500),
        ('{"inputs": [{"name": "user_id", "datatype": "INT65", "shape": [1, 1], "data": [1]}]}', 400),
        ('{"inputs": [{"name": "user_id", "datatype": "INT64", "shape": [1, 1]}]}', 400),
    ],
)
def test_the_http_status_of_a_body_that_triton_cannot_read(server, body, status):
    assert posted(server, body)[0] == status


@pytest.fixture(params=["grpc", "http"])
def ensemble_client(request, ensemble_server):
    url = ensemble_server.grpc_url if request.param == "grpc" else ensemble_server.http_url
    with RankClient(url, request.param, timeout_s=30) as running:
        yield running


def test_a_route_of_another_release_names_both(ensemble_client):
    client = ensemble_client
    release = client.rank(KNOWN).release
    inputs = {
        "user_rows": np.ones((1, 4), np.int64),
        "user_floats": np.ones((1, 3), np.float32),
        "sequence_rows": np.zeros((1, 11), np.int64),
        "route": np.array([[0, 2**62, int("00000badcafe", 16)]], np.int64),
    }
    with pytest.raises(ServerUnavailableError, match=f"00000badcafe.*{release}"):
        client.transport.infer("user_encoder", inputs, 30)


def test_a_state_of_another_release_names_both(ensemble_client):
    client = ensemble_client
    release = client.rank(KNOWN).release
    inputs = {
        "candidates": np.array([KNOWN], np.int64),
        "item_features": np.empty((1, 0), np.int64),
        "item_dense": np.empty((1, 0), np.float32),
        "item_values": np.empty((1, 0), np.float32),
        "route": np.array([[0, 2**62, int(release, 16)]], np.int64),
        "state": np.array([[0x00000B, 0xADCAFE, *[0.0] * 5]], np.float32),
    }
    with pytest.raises(RankError, match=f"00000badcafe.*{release}"):
        client.transport.infer("item_scorer", inputs, 30)


BAD = [
    {"item_dense": [np.nan] * 5},
    {"user_features": [1]},
    {"tier": "gold"},
    {"candidates": range(MAX_CANDIDATES + 1)},
    {"user_dense": [np.inf, 0]},
    {"item_features": [1, 2, 3]},
]


def test_neighbours_of_bad_requests_get_what_they_would_have_got_alone(client, server):
    good = [{"candidates": list(ITEMS[i : i + 20]), "user_id": USERS[i], "tier": TIER} for i in range(20)]
    alone = [client.rank(**request) for request in good]
    before = counted(server, "refused"), counted(server, "batches", model="rank")
    failures: list[object] = []
    barrier = threading.Barrier(2 * len(good))

    def check(request, expected):
        barrier.wait()
        for _ in range(10):
            try:
                nearly_same(client.rank(**request), expected)
            except Exception as error:
                failures.append(error)

    def disturb(request):
        barrier.wait()
        for _ in range(10):
            with contextlib.suppress(RankError):
                failures.append(client.rank(**{"candidates": KNOWN, "user_id": USER, **request}))

    threads = [threading.Thread(target=check, args=pair) for pair in zip(good, alone, strict=True)]
    threads += [threading.Thread(target=disturb, args=(BAD[i % len(BAD)],)) for i in range(len(good))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert counted(server, "refused") == before[0] + 200
    assert counted(server, "batches", model="rank") - before[1] < 400  # good and bad ones shared batches
