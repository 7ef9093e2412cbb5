"""Generated ads: for the users of the demonstration, and for a query; then generated and ranked in one call."""

import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from triton_ads.client import TargetClient, Targets
from triton_ads.demo.users import DEADLINE_MS, DemoError, User
from triton_ads.features.ids import MISSING
from triton_ads.inspection.tables import new_table
from triton_ads.inspection.titles import load_titles
from triton_ads.manifest import Manifest

QUERY = "space adventure for children"
INTRODUCTION = "Which films to rank is generated, by a small language model that can name none but those there are:"
TOP, RANKED, LIKED = 5, 20, 3


def show_targets(release: Path, users: list[User], grpc_url: str, target: str, ads: str, console: Console) -> None:
    """A table of generated films for each user, one for the query, and those of the first user ranked.

    Args:
        release: that generates.
        target, ads: its ensembles.

    Raises:
        RankError: the server refused or did not answer.
        DemoError: a film was generated that the release does not have, or that is not a user's to get.
    """
    titles, labels = load_titles(release), Manifest.load(release, verify_files=False).recipe.labels
    console.print(f"{INTRODUCTION}\n", highlight=False, soft_wrap=True)
    with TargetClient(grpc_url, model=target) as client:
        client.target(top=1)  # opens the connection, whose time is not the search's
        for user in users:
            began = time.perf_counter()
            found = client.target(user_id=user.id, top=TOP, deadline_ms=DEADLINE_MS)
            milliseconds = (time.perf_counter() - began) * 1000
            _check(found, release, user)
            liked = [titles.get(str(ad), str(ad)) for ad in _journey(release, user.id)[-LIKED:]]
            why = f"liked last: {'; '.join(liked)}" if liked else user.what
            _print(console, f"user {user.id}: generated", _table(found, titles), f"in {milliseconds:.1f} ms; {why}")
        began = time.perf_counter()
        found = client.target(query=QUERY, top=TOP, deadline_ms=DEADLINE_MS)
        milliseconds = (time.perf_counter() - began) * 1000
        _print(console, f'"{QUERY}": generated', _table(found, titles), f"in {milliseconds:.1f} ms")
    with TargetClient(grpc_url, model=ads, labels=labels) as client:
        client.ads(top=1)
        began = time.perf_counter()
        ranked = client.ads(user_id=users[0].id, top=RANKED, deadline_ms=DEADLINE_MS)
        milliseconds = (time.perf_counter() - began) * 1000
    generated = dict(zip(ranked.target_ids.tolist(), ranked.target_scores.tolist(), strict=True))
    table = new_table("", ">#", "title", *(f">{label}" for label in labels), ">log-probability")
    for place, (ad, scores) in enumerate(list(ranked.ranking)[:TOP], 1):
        columns = [f"{score:.3f}" for score in scores]
        table.add_row(str(place), titles.get(str(ad), str(ad)), *columns, f"{generated[ad]:.2f}")
    title = f"user {users[0].id}: {len(ranked.ranking)} generated and ranked, in one call"
    _print(console, title, table, f"in {milliseconds:.1f} ms")


def _journey(release: Path, user_id: int) -> list[int]:
    """The ads that the store knows the user to have liked, oldest first."""
    users = release / "target" / "users"
    row = np.flatnonzero(np.load(users / "ids.npy") == user_id)
    journey = np.load(users / "journeys.npy")[row].ravel()
    return journey[journey != MISSING].tolist()


def _check(found: Targets, release: Path, user: User) -> None:
    """What the tree is for: films that exist; and none that the user has met."""
    known = np.load(release / "target" / "tree" / "ad.npy", mmap_mode="r")
    if not len(found) or not np.isin(found.ids, known).all():
        raise DemoError(f"user {user.id}: films {found.ids.tolist()} were generated, not all of which exist")
    met = set(_journey(release, user.id)) & set(found.ids.tolist())
    if met:
        raise DemoError(f"user {user.id}: film {min(met)} was generated, which the user has met")


def _table(found: Targets, titles: dict[str, str]) -> Table:
    table = new_table("", ">#", "title", ">log-probability")
    for place, (ad, score) in enumerate(found, 1):
        table.add_row(str(place), titles.get(str(ad), str(ad)), f"{score:.2f}")
    return table


def _print(console: Console, title: str, table: Table, below: str) -> None:
    table.title = None
    console.print(f"[italic]{title}[/]", highlight=False)  # as a table's title, which may be wider than the table
    console.print(table)
    console.print(f"{below}\n", highlight=False, soft_wrap=True)
