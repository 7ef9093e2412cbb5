"""The real server, ranking by an expression: over gRPC, HTTP, and as anybody's JSON."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.rank_reference import RankReference
from tests.support.tiny_release import ITEMS, USERS, tiny_recipe, write_tiny_release
from triton_ads.client import RankClient, RankError
from triton_ads.client.request import json_body, rank_inputs
from triton_ads.export.repository import write_repository
from triton_ads.server import TritonServer

RECIPE = tiny_recipe("log(payout) * cvr - 0.1 * price", max_candidates=1000)
LOWEST = float(np.finfo(np.float32).min)
#: Known ads, one of which nobody gave a value, and one that is not in the store.
ASKED = [ITEMS[1], ITEMS[0], 5, ITEMS[2], ITEMS[3]]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("by_value")
    write_repository(write_tiny_release(folder / "release", RECIPE), folder / "repository")
    return folder / "release"


@pytest.fixture(scope="module")
def server(release: Path) -> Iterator[TritonServer]:
    with TritonServer(release.parent / "repository") as running:
        yield running


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_values_of_the_store_and_of_the_request(server: TritonServer, release: Path, protocol: str) -> None:
    url = server.grpc_url if protocol == "grpc" else server.http_url
    reference = RankReference(release, RECIPE)
    with RankClient(url, protocol, timeout_s=30, labels=("cvr", "dcvr")) as client:
        for sent in (None, [1.5, 0.0, 3.0, 2.0, 1e38]):
            ranking = client.rank(ASKED, user_id=USERS[7], item_values=sent, tier="high")
            expected = reference.rank(rank_inputs(ASKED, user_id=USERS[7], item_values=sent), "high")
            assert ranking.ids.tolist() == expected.ids
            # float32 scores of another order of summation, times log(1e38) = 88 at most.
            np.testing.assert_allclose(ranking.rank_values, expected.rank_values, rtol=1e-5, atol=1e-4)
            assert (ranking.rank_values == LOWEST).sum() == (2 if sent is None else 1)
        with pytest.raises(RankError, match="item_values: length 4 found, 0 or 5 allowed"):
            client.rank(ASKED, item_values=[1, 2, 3, 4])
        with pytest.raises(RankError, match="item_values: inf found at position 1, finite values allowed"):
            client.rank([1, 2], item_values=[1, np.inf])


def test_no_value_is_a_number_that_json_can_hold(server: TritonServer) -> None:
    body = json_body(rank_inputs(ASKED, user_id=USERS[7])).encode()
    request = urllib.request.Request(f"http://{server.http_url}/v2/models/rank/infer", body)
    with urllib.request.urlopen(request, timeout=30) as response:
        outputs = {output["name"]: output["data"] for output in json.loads(response.read())["outputs"]}
    assert sorted(outputs["rank_values"], reverse=True) == outputs["rank_values"]
    assert outputs["rank_values"][-2:] == [pytest.approx(LOWEST, rel=1e-6)] * 2
    assert outputs["ranked_ids"][-2:] == [ITEMS[0], 5]
