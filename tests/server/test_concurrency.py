"""Many clients at once: every answer is what the request gets alone, while batches really mix."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.tiny_release import ITEMS, USERS
from triton_ads.client import RankClient
from triton_ads.server.metrics import settled_metric

CLIENTS = 64
ROUNDS = 3
MODELS = {"server": ("rank",), "ensemble_server": ("router", "user_encoder", "item_scorer")}


def requests():
    """One a client: 1 to 1,000 candidates, known and unknown ones and duplicates, both tiers, all kinds of users."""
    rng = np.random.default_rng(3)
    sizes = np.unique(np.geomspace(1, 1000, CLIENTS + 30).round().astype(int))
    sizes = np.concatenate([[1, 1000], rng.choice(sizes, CLIENTS - 2, replace=False)])
    return [
        {
            "candidates": rng.integers(ITEMS[0] - 20, ITEMS[-1] + 20, size),
            "user_id": int(rng.integers(USERS[0] - 3, USERS[-1] + 3)),
            "context_dense": rng.normal(0, 1, 1),
            "tier": ("standard", "high")[i % 2],
        }
        for i, size in enumerate(sizes)
    ]


def batching(server, models):
    """Executions and requests so far, by model."""
    names = ("triton_ads_batches_total", "triton_ads_batched_requests_total")
    return {m: np.array([settled_metric(server.metrics_url, name, model=m) for name in names]) for m in models}


@pytest.mark.parametrize(("layout", "protocol"), [("server", "grpc"), ("server", "http"), ("ensemble_server", "grpc")])
@pytest.mark.server
def test_64_clients_at_once_get_what_each_gets_alone(request, layout, protocol):
    server, models, asked = request.getfixturevalue(layout), MODELS[layout], requests()
    url = server.grpc_url if protocol == "grpc" else server.http_url
    with RankClient(url, protocol, timeout_s=60) as client:
        alone = [client.rank(**request) for request in asked]
    before = batching(server, models)
    barrier = threading.Barrier(CLIENTS)

    def work(request):
        with RankClient(url, protocol, timeout_s=60) as own:
            barrier.wait()
            return [own.rank(**request) for _ in range(ROUNDS)]

    with ThreadPoolExecutor(CLIENTS) as pool:
        together = list(pool.map(work, asked))
    after = batching(server, models)

    for request, expected, rankings in zip(asked, alone, together, strict=True):
        for ranking in rankings:
            assert ranking.tier == request["tier"]
            np.testing.assert_array_equal(request["candidates"][ranking.positions], ranking.ids)
            assert sorted(ranking.positions.tolist()) == list(range(len(request["candidates"])))
            order, expected_order = np.argsort(ranking.positions), np.argsort(expected.positions)
            # 1e-6: another batch is another tile, and float32 sums in another order.
            np.testing.assert_allclose(ranking.scores[order], expected.scores[expected_order], rtol=0, atol=1e-6)
            assert np.all(np.diff(ranking.scores[:, 1]) <= 0)
    for model in models:
        executions, answered = after[model] - before[model]
        assert answered == CLIENTS * ROUNDS
        assert answered / executions > 1, f"{model} was never given more than one request at once"
