"""Ask a running server which ads to consider: what could follow a user's journey, or answer a query.

    triton-ads target --user 42 --top 20
    triton-ads target --query "space adventure"
    triton-ads target --user 42 --query comedy --exclude 50 181 --json

Start a server with `triton-ads serve` on a recipe that generates ads, such as build/recipes/targeting.yaml.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from triton_ads.client import RankError, ServerUnavailableError, TargetClient
from triton_ads.commands.options import user, whole
from triton_ads.commands.rank import current_release, raw
from triton_ads.commands.serve import REPOSITORY
from triton_ads.commands.unanswered import hint
from triton_ads.features.ids import MISSING
from triton_ads.inspection.titles import load_titles
from triton_ads.manifest import ManifestError
from triton_ads.recipe.names import TARGET, beside, rankers


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument(
        "--model", metavar="NAME", help="PREFIX_target of a recipe with a prefix (the only one, or target)"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is asked for, and of whom."""
    parser.add_argument("--user", type=user, default=str(MISSING), help="id of the user (none: nobody)")
    parser.add_argument("--query", default="", help="what is asked for, in words")
    parser.add_argument("--exclude", nargs="*", default=[], metavar="AD", help="ads that must not be answered")
    parser.add_argument("--top", type=whole(0), default=0, metavar="N", help="ads to answer (0: the server's number)")
    parser.add_argument("--deadline-ms", type=float, help="time allowed; by default the server's")
    parser.add_argument("--protocol", choices=("grpc", "http"), default="grpc")
    parser.add_argument("--url", help="host:port (127.0.0.1:8001 for gRPC, 127.0.0.1:8000 for HTTP)")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="that is being served (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    try:
        rank = generating(args.repository, TARGET, args.model)
        titles = load_titles(current_release(args.repository, rank))
        user_id, exclude = raw(args.user), [raw(ad) for ad in args.exclude]
        with TargetClient(args.url, args.protocol, model=beside(rank, TARGET)) as client:
            client.target(user_id=user_id, top=1)  # opens the connection, whose time is not the search's
            began = time.perf_counter()
            targets = client.target(
                user_id=user_id, query=args.query, exclude=exclude, top=args.top, deadline_ms=args.deadline_ms
            )
            milliseconds = (time.perf_counter() - began) * 1000
    except ServerUnavailableError as error:
        print(f"triton-ads target: {error}\n{hint(error, args.url, args.protocol)}", file=sys.stderr)
        return 1
    except (RankError, ManifestError, OSError, ValueError) as error:
        print(f"triton-ads target: {error}", file=sys.stderr)
        return 1
    if args.json:
        found = [{"id": ad, "title": titles.get(str(ad)), "score": round(score, 6)} for ad, score in targets]
        print(json.dumps({"release": targets.release, "milliseconds": round(milliseconds, 3), "targets": found}))
        return 0
    table = Table(title=asked_for(args))
    for name, side in (("#", "right"), ("id", "right"), ("title", "left"), ("log-probability", "right")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for place, (ad, score) in enumerate(targets, start=1):
        table.add_row(str(place), str(ad), titles.get(str(ad), ""), f"{score:.3f}")
    console = Console()
    console.print(table)
    console.print(f"{milliseconds:.1f} ms, release {targets.release}", highlight=False)
    return 0


def asked_for(args: argparse.Namespace) -> str:
    """A title for what was asked.

    >>> asked_for(argparse.Namespace(user="42", query="space"))
    "user 42, 'space'"
    """
    user = f"user {args.user}" if args.user != str(MISSING) else "nobody in particular"
    return f"{user}, {args.query!r}" if args.query else user


def generating(repository: Path, name: str, asked: str | None) -> str:
    """The `rank` of the recipe whose ensemble `name`, with its prefix, is asked: the only one, or the one without
    prefix, where `asked` names none.

    Raises:
        ManifestError: there is no such ensemble, or several and none is without prefix.
    """
    found = {beside(rank, name): rank for rank in rankers(repository) if (repository / beside(rank, name)).is_dir()}
    if not found:
        raise ManifestError(
            f"{repository}: no recipe that generates ads; make one with: "
            "triton-ads build --recipe build/recipes/targeting.yaml"
        )
    chosen = asked or (name if name in found else next(iter(found)))
    if chosen not in found:
        raise ManifestError(f"{repository}: no model {chosen!r} found; allowed: {', '.join(sorted(found))}")
    if asked is None and len(found) > 1 and name not in found:
        raise ManifestError(f"{repository}: name an ensemble with --model: {', '.join(sorted(found))}")
    return found[chosen]
