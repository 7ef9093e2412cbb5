"""Serve the release that was served before the one that is, on a running server; without losing a request.

    triton-ads rollback
    triton-ads rollback --recipe NAME    where the server serves several recipes

It goes back as `triton-ads publish` goes forward, with the same checks; twice is two releases back.
"""

import argparse
import sys

from triton_ads.commands.publish import add_server, publisher, tell_pruned
from triton_ads.export.served import PublishRunningError
from triton_ads.server.release_checks import PublishError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", metavar="NAME", help="whose release (the only one that is served)")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    try:
        done, further = publisher(args).rollback(args.recipe)
    except (PublishError, PublishRunningError) as error:
        print(f"triton-ads rollback: {error}", file=sys.stderr)
        return 1
    on = f"another rollback goes to release {further}" if further else "nothing was published before it"
    print(f"{done.recipe}: release {done.release} serves again, in the place of {done.before}; {on}")
    tell_pruned(done)
    return 0
