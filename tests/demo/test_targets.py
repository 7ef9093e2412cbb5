"""Generated ads of the tiny release, on the real server: what is shown is what the server answers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.support.tiny_release import tiny_recipe
from tests.support.tiny_target import target_recipe, write_target_release
from triton_ads.client import TargetClient
from triton_ads.client.target import Targets
from triton_ads.demo.show import show
from triton_ads.demo.targets import QUERY, RANKED, TOP, _check, show_targets
from triton_ads.demo.users import DemoError, User, choose_users
from triton_ads.export.repository import write_repository
from triton_ads.server import TritonServer
from triton_ads.server.watchdog import WatchdogLimits

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    return write_target_release(folder / "release", target_recipe(tiny_recipe(max_candidates=1000)))


@pytest.fixture(scope="module")
def server(release: Path) -> Iterator[TritonServer]:
    write_repository(release, release.parent / "repository")
    with TritonServer(release.parent / "repository", limits=WatchdogLimits(canary_period_s=3600)) as running:
        yield running


def rows_of(shown: str, title: str) -> list[list[str]]:
    """Rows of the table below a title: number, title, the other columns."""
    lines = shown.split(title)[1].splitlines()
    begin = next(i for i, line in enumerate(lines) if line.lstrip().startswith("1 "))
    rows = []
    for line in lines[begin:]:
        if not line.strip():
            break
        rows.append(line.replace("Ad ", "").split())
    return rows


def test_what_is_shown_is_what_the_server_answers(
    server: TritonServer, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = [User(100, "knows 3 films"), User(119, "knows 19 films")]
    show_targets(release, users, server.grpc_url, "target", "ads", Console(width=120))
    shown = capsys.readouterr().out
    assert " ms; liked last: Ad 1000; Ad 1001; Ad 1002\n" in shown and " ms; knows 19 films\n" in shown
    with TargetClient(server.grpc_url, timeout_s=30) as client:
        for user in users:
            expected = [[str(ad), f"{score:.2f}"] for ad, score in client.target(user_id=user.id, top=TOP)]
            rows = rows_of(shown, f"user {user.id}: generated")
            assert rows == [[str(i), *row] for i, row in enumerate(expected, 1)] and len(rows) == TOP
        expected = [[str(ad), f"{score:.2f}"] for ad, score in client.target(query=QUERY, top=TOP)]
        assert [row[1:] for row in rows_of(shown, f'"{QUERY}": generated')] == expected
    with TargetClient(server.grpc_url, model="ads", timeout_s=30, labels=("cvr", "dcvr")) as client:
        ranked = client.ads(user_id=users[0].id, top=RANKED, deadline_ms=2000)
    best = [str(ad) for ad, _ in list(ranked.ranking)[:TOP]]
    assert [row[1] for row in rows_of(shown, f"user {users[0].id}: {RANKED} generated and ranked")] == best


def test_users_are_ranked_for_then_films_are_generated(
    server: TritonServer, release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release may do both."""
    show(release, release, server.grpc_url, server.http_url, Console(width=120))
    shown = capsys.readouterr().out
    first, second, unknown = (user.id for user in choose_users(release))
    titles = [f"user {user}, " for user in (first, second, unknown)]
    titles += [f"user {first}: generated", f"user {second}: generated", f'"{QUERY}": generated']
    places = [shown.find(title) for title in [*titles, f"user {first}: {RANKED} generated and ranked, in one call"]]
    assert places == sorted(places) and places[0] >= 0


@pytest.mark.parametrize(
    ("ids", "message"), [([1003, 7], "not all of which exist"), ([], "not all of which exist"), ([1002], "1002 was")]
)
def test_what_should_not_have_been_generated_is_an_error(release: Path, ids: list[int], message: str) -> None:
    found = Targets(np.array(ids, np.int64), np.zeros(len(ids), np.float32), "0123456789ab")
    with pytest.raises(DemoError, match=message):
        _check(found, release, User(100, ""))
