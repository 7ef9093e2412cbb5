"""Three users, each asked for over gRPC and over HTTP, as tables."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from triton_ads.client import RankClient, Ranking
from triton_ads.inspection.tables import new_table
from triton_ads.inspection.titles import load_titles
from triton_ads.manifest import Manifest

CANDIDATES, TOP, SEED = 500, 5, 0
#: Generous, so that the tier depends on the user and not on how busy this machine is.
DEADLINE_MS = 2000.0
#: Greatest difference between two answers to the same request.
SAME = 1e-6


class DemoError(RuntimeError):
    """The server answered something else than it should have."""


@dataclass(frozen=True)
class User:
    id: int
    what: str


def choose_users(release: Path) -> list[User]:
    """A user with a long history, one with a short history, one that nobody knows."""
    ids, history = (np.load(release / "store" / "users" / f"{name}.npy") for name in ("ids", "history"))
    longest, shortest = int(np.argmax(history)), int(np.argmin(history))
    return [
        User(int(ids[longest]), f"knows {history[longest]} films"),
        User(int(ids[shortest]), f"knows {history[shortest]} films"),
        User(int(ids[-1]) + 1, "never seen before"),
    ]


def show_users(release: Path, users: list[User], grpc_url: str, http_url: str, console: Console) -> None:
    """Rank for the users and print a table for each; and for the first one with less time.

    Raises:
        RankError: the server refused or did not answer.
        DemoError: gRPC and HTTP gave different answers.
    """
    recipe = Manifest.load(release, verify_files=False).recipe
    titles = load_titles(release)
    known = np.load(release / "store" / "items" / "ids.npy")
    ads = np.random.default_rng(SEED).choice(known, min(CANDIDATES, len(known), recipe.serving.max_candidates), False)
    with (
        RankClient(grpc_url, "grpc", labels=recipe.labels) as grpc,
        RankClient(http_url, "http", labels=recipe.labels) as http,
    ):
        for client in (grpc, http):
            client.rank([])  # opens the connection, whose time is not the ranking's
        for user in users:
            ranking, grpc_ms = _ask(grpc, ads, user, DEADLINE_MS)
            again, http_ms = _ask(http, ads, user, DEADLINE_MS, ranking.tier)
            _check_equal(ranking, again, user)
            console.print(_table(ranking, titles, user))
            console.print(
                f"tier [bold]{ranking.tier}[/] ({ranking.reason}), {len(ads)} ads ranked in "
                f"{grpc_ms:.1f} ms over gRPC, {http_ms:.1f} ms over HTTP\n",
                highlight=False,
                soft_wrap=True,
            )
        ranking, milliseconds = _ask(grpc, ads, users[0], None)
        console.print(
            f"user {users[0].id} within the default {recipe.serving.deadline_ms} ms: "
            f"tier [bold]{ranking.tier}[/] ({ranking.reason}), {milliseconds:.1f} ms\n",
            highlight=False,
            soft_wrap=True,
        )


def _ask(
    client: RankClient, ads: NDArray[np.int64], user: User, deadline_ms: float | None, tier: str = ""
) -> tuple[Ranking, float]:
    start = time.perf_counter()
    ranking = client.rank(ads, user_id=user.id, deadline_ms=deadline_ms, tier=tier)
    return ranking, (time.perf_counter() - start) * 1000


def _check_equal(one: Ranking, other: Ranking, user: User) -> None:
    """Candidate by candidate: what else is in a batch may change the last bit of a score, and so the order of two."""
    scores, again = (ranking.scores[np.argsort(ranking.positions)] for ranking in (one, other))
    if not np.allclose(scores, again, rtol=0, atol=SAME):
        raise DemoError(f"user {user.id}: gRPC and HTTP gave different scores to the same candidates")


def _table(ranking: Ranking, titles: dict[str, str], user: User) -> Table:
    table = new_table(f"user {user.id}, {user.what}", ">#", "title", *(f">{label}" for label in ranking.labels))
    for place, (ad, scores) in enumerate(list(ranking)[:TOP], 1):
        table.add_row(str(place), titles.get(str(ad), str(ad)), *(f"{score:.3f}" for score in scores))
    return table
