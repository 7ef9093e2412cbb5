"""Serve a new release of a recipe on a running server, without losing a request.

    triton-ads publish                                   what `triton-ads build` released last
    triton-ads publish --recipe my.yaml --var /data/ads  of another recipe, in another place
    triton-ads publish var/releases/movielens-0123456789ab

The release is checked, loaded beside the one that is served, asked by a canary, switched to, and watched for a while.
A release that is damaged, out of its bounds or wrong in its answers is refused or taken back: exit status 1, and the
reason; the old release goes on serving. So it is where there is nothing new to publish. `triton-ads rollback` goes
back later.
"""

import argparse
import sys
from pathlib import Path

from triton_ads.client.connection import DEFAULT_URLS
from triton_ads.commands.build import DEFAULT_RECIPE, DEFAULT_VAR
from triton_ads.commands.options import whole
from triton_ads.export.served import PublishRunningError
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import load_recipe
from triton_ads.server.publish import Published, Publisher, PublishLimits
from triton_ads.server.release_checks import PublishError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("release", type=Path, nargs="?", help="folder of a release (the one built last)")
    parser.add_argument("--recipe", type=Path, default=DEFAULT_RECIPE, metavar="FILE", help="whose (%(default)s)")
    add_server(parser)


def add_server(parser: argparse.ArgumentParser) -> None:
    """Where the server is, and how it is watched; the same for `rollback`."""
    parser.add_argument("--var", type=Path, default=DEFAULT_VAR, metavar="FOLDER", help="of the build (%(default)s)")
    parser.add_argument("--repository", type=Path, help="that the server serves (VAR/repository)")
    parser.add_argument("--url", default=DEFAULT_URLS["http"], help="host:port of the server's HTTP (%(default)s)")
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="control.key of a server with --address (of the server of the same port beside the repository)",
    )
    parser.add_argument(
        "--keep",
        type=whole(1),
        default=3,
        metavar="N",
        help="releases of the recipe that stay; what is served, and what was before it, always does (%(default)s)",
    )
    parser.add_argument(
        "--watch-s", type=whole(0, 3600), default=10, metavar="S", help="how long the canary goes on (%(default)s)"
    )


def publisher(args: argparse.Namespace) -> Publisher:
    repository = args.repository or args.var / "repository"
    beside = repository.resolve().parent / "server" / args.url.rpartition(":")[2] / "control.key"
    key_file = args.key_file or (beside if beside.is_file() else None)
    return Publisher(
        repository,
        args.url,
        key=key_file.read_text() if key_file is not None else "",
        keep=args.keep,
        limits=PublishLimits(watch_s=args.watch_s),
        say=lambda line: print(line, flush=True),
    )


def run(args: argparse.Namespace) -> int:
    try:
        release = args.release or built_last(args.recipe, args.var)
        tell(publisher(args).publish(release))
    except (PublishError, PublishRunningError) as error:
        print(f"triton-ads publish: {error}", file=sys.stderr)
        return 1
    return 0


def built_last(recipe_file: Path, var: Path) -> Path:
    """
    Raises:
        PublishError: the recipe has not been built.
    """
    layout = Layout(var, load_recipe(recipe_file).name)
    if not layout.release.is_dir():
        raise PublishError(
            f"{var}: no release of {layout.recipe} has been built; "
            f"make one with: triton-ads build --recipe {recipe_file}"
        )
    return layout.release


def tell(done: Published) -> None:
    print(f"{done.recipe}: release {done.release} serves, before it {done.before}")
    tell_pruned(done)


def tell_pruned(done: Published) -> None:
    if done.pruned:
        print(f"removed: {', '.join(done.pruned)}")
