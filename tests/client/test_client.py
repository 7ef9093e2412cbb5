"""RankClient against the real server."""

import json
import re
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.tiny_release import ITEMS, USERS, rows_of, tiny_scores
from triton_ads.client import RankClient, RankError, RankTimeoutError, ServerUnavailableError
from triton_ads.client.request import json_body, rank_inputs
from triton_ads.features.ids import raw_id

FULL = {
    "candidates": [1000, 2, 1001, 1002, 3],
    "user_features": [USERS[3], raw_id("loyal"), raw_id("city 3")],
    "user_dense": [0.5, -1.0],
    "sequences": [[[1001, 1], [1002, 2]], [[1003]]],
    "context_features": [raw_id("morning")],
    "context_dense": [0.25],
    "item_features": [[1000 + i, 1 + i, -1, 6] for i in range(5)],
    "item_dense": [0.1, 0.2, 0.3, 0.4, 0.5],
    "deadline_ms": 5000,
}


def same(one, other):
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.positions, other.positions)
    assert (one.tier, one.reason, one.release, one.labels) == (other.tier, other.reason, other.release, other.labels)


@pytest.fixture
def nobody():
    """host:port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize("tier", ["standard", "high"])
def test_a_request_that_gives_everything_gets_the_arithmetic_of_the_release(client, recipe, tier):
    ranking = client.rank(**FULL, tier=tier)
    columns = zip(("user", "segment", "city"), FULL["user_features"], strict=True)
    user = [rows_of(recipe, table, np.array([value]))[0] for table, value in columns]
    sequence = np.zeros(recipe.sequence_width, np.int64)
    for at, (table, value) in enumerate([("item", 1001), ("tag", 1), ("item", 1002), ("tag", 2)]):
        sequence[at] = rows_of(recipe, table, np.array([value]))[0]
    sequence[8] = rows_of(recipe, "item", np.array([1003]))[0]
    features = np.array(FULL["item_features"])
    items = np.stack([rows_of(recipe, "item" if i == 0 else "tag", features[:, i]) for i in range(4)], 1)
    expected = tiny_scores(
        recipe,
        tier,
        np.array([*user, rows_of(recipe, "daypart", np.array(FULL["context_features"]))[0]]),
        np.array([*FULL["user_dense"], *FULL["context_dense"]], np.float32),
        sequence,
        items,
        np.array(FULL["item_dense"], np.float32)[:, None],
    )
    order = np.argsort(-expected[:, 1], kind="stable")  # the recipe ranks by dcvr
    assert ranking.positions.tolist() == order.tolist()
    assert ranking.ids.tolist() == [FULL["candidates"][i] for i in order]
    np.testing.assert_allclose(ranking.scores, expected[order], rtol=1e-6)  # float32, sums in another order
    assert (ranking.tier, ranking.reason, ranking.labels) == (tier, "insisted", ("cvr", "dcvr"))


def test_both_protocols_give_the_same_answer(grpc, http):
    same(grpc.rank(**FULL, tier="high"), http.rank(**FULL, tier="high"))
    same(grpc.rank([], tier="high"), http.rank([], tier="high"))
    for user in USERS:
        same(*(c.rank(ITEMS[:30], user_id=user, tier="standard") for c in (grpc, http)))


def test_the_json_that_curl_would_send_gets_the_same_answer(server, http):
    body = json_body(rank_inputs(ITEMS[:7], user_id=USERS[4], tier="high"))
    url = f"http://{server.http_url}/v2/models/rank/infer"
    answer = json.load(urllib.request.urlopen(url, body.encode(), timeout=5))
    outputs = {o["name"]: o["data"] for o in answer["outputs"]}
    ranking = http.rank(ITEMS[:7], user_id=USERS[4], tier="high")
    assert outputs["ranked_ids"] == ranking.ids.tolist()
    np.testing.assert_allclose(outputs["scores"], ranking.scores.ravel(), rtol=1e-6)


def test_one_client_is_shared_by_16_threads(client):
    """Each thread has its own user and candidates, so that an answer that went astray is noticed."""
    asked = [{"candidates": ITEMS[i : i + 10 + i], "user_id": USERS[i], "tier": "standard"} for i in range(16)]
    alone = [client.rank(**request) for request in asked]
    barrier = threading.Barrier(16)

    def work(request):
        barrier.wait()
        return [client.rank(**request) for _ in range(40)]

    with ThreadPoolExecutor(16) as pool:
        for expected, rankings in zip(alone, pool.map(work, asked), strict=True):
            for ranking in rankings:
                order, expected_order = np.argsort(ranking.positions), np.argsort(expected.positions)
                np.testing.assert_array_equal(ranking.ids[order], expected.ids[expected_order])
                np.testing.assert_allclose(ranking.scores[order], expected.scores[expected_order], rtol=0, atol=1e-6)


def test_http_keeps_as_many_connections_as_there_were_calls_at_once(server):
    with RankClient(server.http_url, "http") as client:
        for _ in range(5):
            client.rank([1000])
        assert len(client.transport._idle) == 1
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: client.rank([1000]), range(40)))
        assert 1 <= len(client.transport._idle) <= 4
    assert len(client.transport._idle) == 0


def test_a_pool_of_channels_answers_like_one(server, grpc):
    with RankClient(server.grpc_url, pool=3, labels=grpc.labels) as pooled:
        for _ in range(6):
            same(
                pooled.rank(ITEMS[:9], user_id=USERS[5], tier="high"),
                grpc.rank(ITEMS[:9], user_id=USERS[5], tier="high"),
            )


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_where_nobody_answers_the_error_names_the_address(nobody, protocol):
    with RankClient(nobody, protocol) as client, pytest.raises(ServerUnavailableError, match=f"no server.*{nobody}"):
        client.rank([1])


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_retries_wait_longer_each_time_and_are_bounded(nobody, protocol):
    with RankClient(nobody, protocol, retries=3) as client:
        began = time.monotonic()
        with pytest.raises(ServerUnavailableError):
            client.rank([1])
        assert 0.05 + 0.1 + 0.2 <= time.monotonic() - began < 2.0
        began = time.monotonic()
        with pytest.raises(ServerUnavailableError):
            client.rank([1], deadline_ms=20)
        assert time.monotonic() - began < 0.2


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_retry_finds_a_server_that_comes_in_the_meantime(server, nobody, protocol):
    """A port that is closed at first and then leads to the server."""
    target = server.grpc_url if protocol == "grpc" else server.http_url
    host, port = nobody.split(":")

    def forward():
        time.sleep(0.3)
        with socket.create_server((host, int(port))) as listener:
            listener.settimeout(10)
            source, _ = listener.accept()
            with source, socket.create_connection(target.split(":")) as sink:
                back = threading.Thread(target=pump, args=(sink, source))
                back.start()
                pump(source, sink)
                back.join()

    thread = threading.Thread(target=forward)
    thread.start()
    with RankClient(nobody, protocol, retries=6, timeout_s=10) as client:
        assert client.rank([1000]).ids.tolist() == [1000]
    thread.join()


def test_a_time_that_is_over_is_a_timeout_and_no_wrong_number():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"127.0.0.1:{silent.getsockname()[1]}"
        with RankClient(url, "http") as client, pytest.raises(RankTimeoutError):
            client.ask(rank_inputs([1000]), time.monotonic() - 1)


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_a_refused_request_is_not_asked_again(server):
    class Counting:
        calls = 0

        def __init__(self, inner):
            self.inner = inner

        def infer(self, *arguments):
            self.calls += 1
            return self.inner.infer(*arguments)

        def close(self):
            self.inner.close()

    with RankClient(server.http_url, "http", retries=5) as client:
        client.transport = Counting(client.transport)
        with pytest.raises(RankError, match="insisted_tier"):
            client.rank([1], tier="gold")
        assert client.transport.calls == 1


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize(("timeout_s", "deadline_ms"), [(0.2, None), (5, 180)])
def test_a_server_that_says_nothing_is_not_waited_for(protocol, timeout_s, deadline_ms):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"127.0.0.1:{silent.getsockname()[1]}"
        with RankClient(url, protocol, timeout_s=timeout_s) as client:
            began = time.monotonic()
            with pytest.raises(RankTimeoutError, match=f"no answer from {url} within (199|200) ms"):
                client.rank([1], deadline_ms=deadline_ms)
            assert 0.15 < time.monotonic() - began < 0.6


def test_a_connection_that_the_server_closed_is_replaced(server):
    with RankClient(server.http_url, "http") as client:
        expected = client.rank([1000, 1001], tier="standard")
        client.transport._idle[0].sock.shutdown(socket.SHUT_RDWR)
        same(client.rank([1000, 1001], tier="standard"), expected)


def test_the_deadline_goes_to_the_server(client):
    """One millisecond is over before the last step; without a deadline the recipe's 10 s hold."""
    with pytest.raises(RankError, match=r"deadline exceeded|no answer"):
        for _ in range(50):
            client.rank(np.arange(1000), user_id=USERS[0], deadline_ms=1)
    assert len(client.rank(np.arange(1000), user_id=USERS[0])) == 1000


def test_wrong_arguments_say_what_is_allowed():
    with pytest.raises(ValueError, match="protocol: 'udp' is not known; allowed: grpc, http"):
        RankClient(protocol="udp")
    with pytest.raises(ValueError, match="pool >= 1"):
        RankClient(pool=0)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), -float("inf"), 1e300, 86_400_001])
def test_a_deadline_or_a_timeout_is_above_0_and_at_most_a_day(wrong):
    with (
        RankClient() as client,
        pytest.raises(ValueError, match=f"deadline_ms: {re.escape(str(wrong))} found, above 0"),
    ):
        client.rank([1], deadline_ms=wrong)
    with pytest.raises(ValueError, match=rf"0 < timeout_s <= 86400.*found {re.escape(str(wrong))}, 1, 0"):
        RankClient(timeout_s=wrong)


def test_the_longest_deadline_is_answered(server):
    for url, protocol in ((server.grpc_url, "grpc"), (server.http_url, "http")):
        with RankClient(url, protocol, timeout_s=86_400) as client:
            assert client.rank([1000], deadline_ms=86_400_000).ids.tolist() == [1000]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:abc",
        "http://127.0.0.1:8000",
        "127.0.0.1:8000/v2",
        "127.0.0.1",
        "",
        ":8000",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:٣",
        "a b:1",
        "a..b:1",
        "a" * 64 + ":1",
        "127.0.0.1:8000\n",
        "x" * 100_000,
    ],
    ids=range(15),
)
def test_an_address_that_is_not_host_and_port(url, protocol):
    with pytest.raises(
        ValueError, match=r"^url: '.* found, host:port allowed, port 1 to 65535 and no http://"
    ) as raised:
        RankClient(url, protocol)
    assert repr(url)[:50] in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("url", ["localhost:1", "[::1]:65535", "ranker.example-1.com:8001", "some_service:08001"])
def test_addresses_that_are_taken(url):
    for protocol in ("grpc", "http"):
        with RankClient(url, protocol) as client:
            assert client.url == url
