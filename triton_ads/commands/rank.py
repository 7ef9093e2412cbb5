"""Rank candidates for a user on a running server, and show them.

    triton-ads rank --user 42 --candidates 500 --top 10
    triton-ads rank --user 42 --candidates 500 --context daypart=morning --protocol http
    triton-ads rank --user 42 --candidates 50 --tier high --json

The candidates are drawn from the ads that the release knows; which release that is, and what the ads are called, is
read from the model repository. Start a server with `triton-ads serve`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from triton_ads.client import RankClient, RankError, Ranking, ServerUnavailableError
from triton_ads.commands.options import user, whole
from triton_ads.commands.serve import REPOSITORY
from triton_ads.commands.unanswered import hint
from triton_ads.features.ids import MISSING, raw_id
from triton_ads.inspection.titles import load_titles
from triton_ads.manifest import Manifest, ManifestError
from triton_ads.recipe import Recipe
from triton_ads.recipe.names import RANK, RELEASE_LINK, chain_of, rankers
from triton_ads.serving.store import ItemStore, UserStore


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", type=user, default=str(MISSING), help="id of the user (none: a cold start)")
    parser.add_argument("--candidates", type=whole(0), default=500, metavar="N", help="ads to rank (%(default)s)")
    parser.add_argument("--top", type=whole(0), default=10, metavar="N", help="ads to show (%(default)s)")
    parser.add_argument("--seed", type=whole(0), default=0, help="of the draw of candidates (%(default)s)")
    parser.add_argument("--context", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    parser.add_argument("--tier", default="", help="insist on a tier")
    parser.add_argument("--deadline-ms", type=float, help="time allowed; by default the server's")
    parser.add_argument("--protocol", choices=("grpc", "http"), default="grpc")
    parser.add_argument("--url", help="host:port (127.0.0.1:8001 for gRPC, 127.0.0.1:8000 for HTTP)")
    parser.add_argument("--model", metavar="NAME", help="PREFIX_rank of a recipe with a prefix (the only one, or rank)")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="that is being served (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    try:
        model = ranker(args.repository, args.model)
        folder = current_release(args.repository, model)
        recipe = Manifest.load(folder, verify_files=False).recipe
        known = ItemStore(folder / "store" / "items", recipe).ids
        titles = load_titles(folder)
        count = min(args.candidates, len(known))
        if count < args.candidates:
            print(f"the release knows {count} ads; all of them are ranked", file=sys.stderr)
        candidates = np.random.default_rng(args.seed).choice(known, count, replace=False)
        user_id = raw(args.user)
        tell_unknown(folder, recipe, args.user)
        ids, dense = context_values(recipe, args.context)
        with RankClient(args.url, args.protocol, model=model, labels=recipe.labels) as client:
            client.rank([])  # opens the connection, whose time is not the ranking's
            began = time.perf_counter()
            ranking = client.rank(
                candidates,
                user_id=user_id,
                context_features=ids,
                context_dense=dense,
                deadline_ms=args.deadline_ms,
                tier=args.tier,
            )
            milliseconds = (time.perf_counter() - began) * 1000
    except ServerUnavailableError as error:
        print(f"triton-ads rank: {error}\n{hint(error, args.url, args.protocol)}", file=sys.stderr)
        return 1
    except (RankError, ManifestError, OSError, ValueError) as error:
        print(f"triton-ads rank: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(as_document(ranking, titles, args.top, milliseconds), ensure_ascii=False))
    else:
        rule = recipe.rank_rule.text
        by = None if rule in recipe.labels else rule
        show(ranking, titles, args.top, f"user {args.user}, {len(ranking)} candidates", milliseconds, by)
    return 0


def tell_unknown(release: Path, recipe: Recipe, user: str) -> None:
    """Say on stderr where the release does not know the user who is asked for.

    Raises:
        ValueError: the id is no int64, or the store is damaged.
    """
    if raw(user) != MISSING and UserStore(release / "store" / "users", recipe).find(raw(user)) is None:
        print(f"user {user} is not known to the release: ranked as a cold start", file=sys.stderr)


def ranker(repository: Path, asked: str | None = None) -> str:
    """The `rank` of a repository to ask; where `asked` names none, the only one, or the one without prefix.

    Raises:
        ManifestError: there is no such model, or several and none is without prefix.
    """
    served = rankers(repository)
    if not served:
        raise ManifestError(f"{repository}: no model repository with a release; make one with: triton-ads build")
    if asked is None and len(served) > 1 and RANK not in served:
        raise ManifestError(f"{repository}: several recipes found, name one with --model: {', '.join(served)}")
    chosen = asked or (RANK if RANK in served else served[0])
    if chosen not in served:
        raise ManifestError(f"{repository}: no model {asked!r} found; allowed: {', '.join(served)}")
    return chosen


def current_release(repository: Path, model: str | None = None) -> Path:
    """The release behind the newest version of any model that answers for a `rank`, chosen as `ranker` does.

    Raises:
        ManifestError: the repository holds none.
    """
    chain = chain_of(ranker(repository, model), [path.name for path in repository.glob("*") if path.is_dir()])
    found = (p for name in chain for p in (repository / name).glob(f"*/{RELEASE_LINK}"))
    links = [p for p in found if p.parent.name.isdigit() and p.is_dir()]
    if not links:
        raise ManifestError(f"{repository}: no release behind {', '.join(chain)}; make one with: triton-ads build")
    return max(links, key=lambda p: int(p.parent.name)).resolve()


def context_values(recipe: Recipe, pairs: list[str]) -> tuple[NDArray[np.int64] | None, NDArray[np.float32] | None]:
    """`NAME=VALUE` pairs as the context's id and dense columns; None where nothing is given.

    A value that reads as an integer is one; other ids are strings. A feature of several ids takes them with commas.

    Raises:
        ValueError: an unknown name, or a value that does not fit.
    """
    given: dict[str, str] = {}
    allowed = [f.name for f in recipe.features if f.side == "context"]
    if pairs and not allowed:
        raise ValueError(f"--context {pairs[0]}: this recipe has no context features")
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in allowed:
            raise ValueError(f"--context {pair}: NAME=VALUE with a name of {', '.join(allowed)} is allowed")
        given[name] = value
    if not given:
        return None, None
    ids = np.full(len(recipe.id_columns("context")), MISSING, np.int64)
    for i, column in enumerate(recipe.id_columns("context")):
        values = given[column.feature].split(",") if column.feature in given else []
        if column.slot < len(values):
            ids[i] = raw(values[column.slot])
    dense = [float(given.get(column.feature, 0.0)) for column in recipe.dense_columns("context")]
    return ids, np.array(dense, np.float32)


def raw(value: str) -> int:
    """The raw id that a text means: the integer that it reads as, else a string's.

    Raises:
        ValueError: an integer that is no int64.
    """
    try:
        number = int(value)
    except ValueError:
        return raw_id(value)
    return raw_id(number)


def as_document(ranking: Ranking, titles: dict[str, str], top: int, milliseconds: float) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "release": ranking.release,
        "tier": ranking.tier,
        "reason": ranking.reason,
        "milliseconds": round(milliseconds, 3),
        "candidates": len(ranking),
        "ranked": [
            {
                "id": ad,
                "title": titles.get(str(ad)),
                "rank_value": float(value),
                "scores": {label: round(float(s), 6) for label, s in zip(ranking.labels, scores, strict=True)},
            }
            for (ad, scores), value in list(zip(ranking, ranking.rank_values, strict=True))[:top]
        ],
    }


def show(
    ranking: Ranking, titles: dict[str, str], top: int, title: str, milliseconds: float, rank_by: str | None = None
) -> None:
    """Print a table of the best `top`; with the values that order them where `rank_by` is an expression."""
    table = Table(title=title)
    table.add_column("#", justify="right")
    table.add_column("id", justify="right")
    table.add_column("title")
    for label in ranking.labels:
        table.add_column(label, justify="right")
    if rank_by is not None:
        table.add_column("value", justify="right")
    for place, (ad, scores) in enumerate(list(ranking)[:top], start=1):
        value = [f"{ranking.rank_values[place - 1]:.4g}"] if rank_by is not None else []
        table.add_row(str(place), str(ad), titles.get(str(ad), ""), *(f"{score:.4f}" for score in scores), *value)
    console = Console()
    console.print(table)
    if rank_by is not None:
        console.print(f"value = {rank_by}", highlight=False)
    console.print(
        f"tier {ranking.tier} ({ranking.reason}), {milliseconds:.1f} ms, release {ranking.release}", highlight=False
    )
