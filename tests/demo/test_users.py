"""Three users of the tiny release, on the real server."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from triton_ads.client import RankClient
from triton_ads.commands.rank import current_release
from triton_ads.demo.users import choose_users, show_users
from triton_ads.server import TritonServer


def test_users_with_a_long_a_short_and_no_history(tmp_path: Path) -> None:
    users = tmp_path / "store" / "users"
    users.mkdir(parents=True)
    np.save(users / "ids.npy", np.array([3, 5, 9], np.int64))
    np.save(users / "history.npy", np.array([20, 4, 700], np.int32))
    found = choose_users(tmp_path)
    assert [(user.id, user.what) for user in found] == [
        (9, "knows 700 films"),
        (5, "knows 4 films"),
        (10, "never seen before"),
    ]


def test_what_is_shown_is_what_the_server_answers(
    server: TritonServer, repository: Path, grpc: RankClient, capsys: pytest.CaptureFixture[str]
) -> None:
    release = current_release(repository)
    users = choose_users(release)
    show_users(release, users, server.grpc_url, server.http_url, Console(width=100))
    shown = capsys.readouterr().out
    parts = [shown.split(f"user {user.id}, {user.what}")[1] for user in users]
    ads = np.load(release / "store" / "items" / "ids.npy")
    for user, part in zip(users, parts, strict=True):
        ranking = grpc.rank(ads, user_id=user.id, deadline_ms=2000)
        best = f" 1   Ad {ranking.ids[0]}   {ranking.scores[0, 0]:.3f}   {ranking.scores[0, 1]:.3f}"
        assert best.split() == next(line for line in part.splitlines() if line.lstrip().startswith("1 ")).split()
        assert f"tier {ranking.tier} ({ranking.reason}), {len(ads)} ads ranked in" in part
    assert f"user {users[0].id} within the default 10000 ms: tier" in shown
