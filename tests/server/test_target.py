"""Generated ads on the real server: as the services say, alone and among others, and ranked in one call."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny_release import ITEMS, tiny_recipe
from tests.support.tiny_target import MET, Exhaustive, target_recipe, write_target_release
from triton_ads.cli import main
from triton_ads.client import RankClient, RankError, TargetClient
from triton_ads.export.repository import write_repository
from triton_ads.features.ids import raw_id
from triton_ads.recipe.names import askable
from triton_ads.server import TritonServer
from triton_ads.server.canary import RankCanary
from triton_ads.server.metrics import settled_metric
from triton_ads.server.watchdog import WatchdogLimits

CLIENTS, ROUNDS = 16, 3


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A search takes a millisecond here: without a delay few requests would meet.
    recipe = target_recipe(tiny_recipe(queue_delay_us=5000), mode="exact")
    return write_target_release(tmp_path_factory.mktemp("target") / "release", recipe)


@pytest.fixture(scope="module")
def server(release: Path) -> Iterator[TritonServer]:
    write_repository(release, release.parent / "repository")
    with TritonServer(release.parent / "repository", limits=WatchdogLimits(canary_period_s=3600)) as running:
        yield running


def test_the_models_that_serve(server: TritonServer) -> None:
    assert set(server.models) == {"rank", "generator", "trie_verifier", "target", "ads"}


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_ads_that_exist_and_were_not_met_with_their_scores(server: TritonServer, release: Path, protocol: str) -> None:
    url = server.grpc_url if protocol == "grpc" else server.http_url
    scores = Exhaustive(release).scores([1000, 1001, 1002], "space")
    with TargetClient(url, protocol, timeout_s=30) as client:  # type: ignore[arg-type]
        targets = client.target(user_id=100, query="space", top=20)
        assert len(targets) == 20 and not set(targets.ids.tolist()) & set(MET[100])
        np.testing.assert_allclose(targets.scores, [scores[ad] for ad in targets.ids.tolist()], atol=0.05)
        assert (np.diff(targets.scores) <= 0).all()
        others = client.target(user_id=100, query="space", top=20, exclude=targets.ids)
        assert not set(others.ids.tolist()) & set(targets.ids.tolist())
        assert len(client.target(exclude=ITEMS)) == 0
        with pytest.raises(RankError, match="top: 71 found, 0 to 70 allowed"):
            client.target(top=71)


def test_16_clients_at_once_get_what_each_gets_alone(server: TritonServer) -> None:
    asked = [
        {"user_id": 100 + i % 6, "query": ("", "space", "a drama")[i % 3], "top": 5 + i, "exclude": [1030 + i]}
        for i in range(CLIENTS)
    ]

    def batching() -> np.ndarray:
        names = ("triton_ads_batches_total", "triton_ads_batched_requests_total")
        return np.array([settled_metric(server.metrics_url, name, model="generator") for name in names])

    with TargetClient(server.grpc_url, timeout_s=60) as client:
        alone = [client.target(**one) for one in asked]  # type: ignore[arg-type]
    before = batching()
    barrier = threading.Barrier(CLIENTS)

    def work(one: dict) -> list:
        with TargetClient(server.grpc_url, timeout_s=60) as own:
            barrier.wait()
            return [own.target(**one) for _ in range(ROUNDS)]

    with ThreadPoolExecutor(CLIENTS) as pool:
        together = list(pool.map(work, asked))
    for one, expected, answers in zip(asked, alone, together, strict=True):
        for answer in answers:
            assert answer.ids.tolist() == expected.ids.tolist(), one
            assert answer.scores.tolist() == expected.scores.tolist(), one
    executions, answered = batching() - before
    assert answered == CLIENTS * ROUNDS and answered / executions > 1


def test_ads_are_the_targets_ranked(server: TritonServer) -> None:
    with (
        TargetClient(server.grpc_url, timeout_s=30) as target,
        TargetClient(server.grpc_url, model="ads", timeout_s=30) as ads,
        RankClient(server.grpc_url, timeout_s=30) as rank,
    ):
        generated = target.target(user_id=100, query="space", top=15)
        expected = rank.rank(generated.ids, user_id=100, context_dense=[0.5])
        found = ads.ads(user_id=100, query="space", top=15, context_dense=[0.5])
        assert found.target_ids.tolist() == generated.ids.tolist()
        assert found.target_scores.tolist() == generated.scores.tolist()
        assert found.ranking.ids.tolist() == expected.ids.tolist()
        # 1e-6: another batch is another tile, and float32 sums in another order.
        np.testing.assert_allclose(found.ranking.scores, expected.scores, atol=1e-6)
        assert found.ranking.release == generated.release == expected.release
        assert len(ads.ads(user_id=100, exclude=ITEMS).ranking) == 0


def test_the_canary_asks_the_generator_too(server: TritonServer) -> None:
    asked = askable(server.process.options.repository, server.models)
    assert asked == ["rank", "target"]
    RankCanary(server.http_url, lambda: asked)(30)
    with pytest.raises(RankError, match=r"c_rank: .*c_target: "):
        RankCanary(server.http_url, lambda: [*asked, "c_rank", "c_target"])(30)


def test_metrics_of_the_search(server: TritonServer) -> None:
    def counted(name: str, **labels: str) -> float:
        return settled_metric(server.metrics_url, f"triton_ads_{name}_total", model="generator", **labels)

    before = {name: counted(name) for name in ("search_forwards", "steps_saved", "search_tokens", "search_seconds")}
    with TargetClient(server.grpc_url, timeout_s=30) as client:
        client.target(user_id=100)
    after = {name: counted(name) for name in before}
    # A level a step, but for the last: two forwards, or fewer and steps saved.
    assert after["search_forwards"] - before["search_forwards"] + after["steps_saved"] - before["steps_saved"] == 2
    assert after["search_tokens"] > before["search_tokens"] and after["search_seconds"] > before["search_seconds"]
    assert sum(counted("searches", level=level) for level in ("none", "1", "2")) > 0


@pytest.fixture
def command(
    server: TritonServer, release: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command of triton-ads on the server: its exit status, output and errors."""

    def run(name: str, *arguments: str, protocol: str = "grpc") -> tuple[int, str, str]:
        url = server.grpc_url if protocol == "grpc" else server.http_url
        repository = str(release.parent / "repository")
        status = main([name, "--repository", repository, "--url", url, "--protocol", protocol, *arguments])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_commands_show_what_the_clients_get(
    server: TritonServer, command: Callable[..., tuple[int, str, str]], protocol: str
) -> None:
    asked = ["--user", "100", "--query", "space", "--exclude", "1040", "1041", "--top", "7", "--json"]
    with TargetClient(server.grpc_url, timeout_s=30) as client:
        expected = client.target(user_id=100, query="space", exclude=[1040, 1041], top=7)
    status, out, err = command("target", *asked, protocol=protocol)
    answer = json.loads(out)
    assert (status, err) == (0, "")
    assert [row["id"] for row in answer["targets"]] == expected.ids.tolist()
    assert [row["title"] for row in answer["targets"]] == [f"Ad {i}" for i in expected.ids]
    assert [row["score"] for row in answer["targets"]] == pytest.approx(expected.scores.tolist(), abs=1e-5)
    status, out, err = command("ads", *asked, "--context", "bid=0.5", "--tier", "high", protocol=protocol)
    ranked = json.loads(out)
    assert (status, err, ranked["tier"]) == (0, "", "high")
    assert sorted(row["id"] for row in ranked["ranked"]) == sorted(expected.ids.tolist())
    for row in ranked["ranked"]:
        assert row["target_score"] == pytest.approx(expected.scores[expected.ids.tolist().index(row["id"])], abs=1e-5)


def test_the_commands_show_tables(command: Callable[..., tuple[int, str, str]]) -> None:
    status, out, _ = command("target", "--query", "space", "--top", "4")
    assert status == 0 and "nobody in particular, 'space'" in out and out.count("Ad 10") == 4
    status, out, _ = command("ads", "--user", "101", "--top", "4")
    assert status == 0 and "user 101: 4 generated, ranked" in out and out.count("Ad 10") == 4


def test_an_ad_is_blocked_at_once_and_may_be_answered_again(
    server: TritonServer, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def trie(*arguments: str) -> str:
        assert main(["trie", *arguments, "--repository", str(release.parent / "repository")]) == 0
        return capsys.readouterr().out.strip()

    with TargetClient(server.grpc_url, timeout_s=30) as client:
        before = client.target(top=6).ids.tolist()
        assert trie("block", str(before[0]), str(before[2])) == f"blocked: {', '.join(map(str, sorted(before[0:3:2])))}"
        blocked = client.target(top=6).ids.tolist()
        assert not {before[0], before[2]} & set(blocked) and len(blocked) == 6
        assert trie("unblock", str(before[2])) == f"blocked: {before[0]}"
        assert before[2] in client.target(top=6).ids.tolist()
        assert trie("unblock", str(before[0])) == "blocked: none"
        assert client.target(top=6).ids.tolist() == before


def test_what_is_no_ad_of_the_release_is_blocked_for_later_ones_and_said(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def trie(*arguments: str) -> tuple[str, str]:
        assert main(["trie", *arguments, "--repository", str(release.parent / "repository")]) == 0
        shown = capsys.readouterr()
        return shown.out.strip(), shown.err.strip()

    star = raw_id("star")
    said = [f"star (id {star}) is not an ad of this release", "999999 is not an ad of this release"]
    out, err = trie("block", "star", "999999")
    assert out == f"blocked: {', '.join(map(str, sorted([star, 999999])))}"
    assert err.splitlines() == [f"{line}; blocked for later ones" for line in said]
    assert trie("unblock", "star", "999999") == ("blocked: none", "\n".join(said))


def test_what_is_wrong_with_a_question_is_said(command: Callable[..., tuple[int, str, str]]) -> None:
    status, _, err = command("target", "--top", "71")
    assert status == 1 and "top: 71 found, 0 to 70 allowed (target.max_top)" in err
    status, _, err = command("ads", "--model", "other_ads")
    assert status == 1 and "no model 'other_ads' found; allowed: ads" in err
