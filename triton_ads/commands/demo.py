"""All of it, on one machine: build, start the real server, rank ads for three users, generate ads for them, stop.

  triton-ads demo             `triton-ads build` of two recipes, then three users and a query
  triton-ads demo --keep      leaves the server running; says how to ask it and how to stop it

What has not changed since the last time is skipped. scripts/demo.sh makes the environment that this needs, and runs it.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from triton_ads.commands.build import add_arguments

TARGETING_RECIPE = Path("build/recipes/targeting.yaml")
#: On two idle cores, the generator's three included.
FIRST_RUN_MINUTES = 8


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument(
        "--targeting",
        type=Path,
        default=TARGETING_RECIPE,
        metavar="FILE",
        help="the recipe that generates ads (%(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the server running, on the ports of `serve`")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from triton_ads.demo.background import Ports, start_in_background
    from triton_ads.demo.show import show
    from triton_ads.inspection.summary import summary
    from triton_ads.pipeline.build import build
    from triton_ads.pipeline.runner import Selection
    from triton_ads.server import TritonServer

    console, ports = Console(), Ports()
    if args.keep:
        ports.check()  # now, not after minutes of building
    print(
        f"The first run takes about {FIRST_RUN_MINUTES} minutes on two idle cores, most of it training; "
        "later ones skip what has not changed.\n"
        f"\n{args.recipe}: a ranker",
        flush=True,
    )
    ranking = build(args.recipe, args.var, Selection())
    console.print(summary(ranking))
    print(f"{args.targeting}: a generator of ads to rank", flush=True)
    targeting = build(args.targeting, args.var, Selection())
    releases = ranking.release.resolve(), targeting.release.resolve()
    start = time.monotonic()
    print("\nStarting Triton ...", flush=True)
    if not args.keep:
        with TritonServer(ranking.repository) as server:
            print(f"Triton is ready after {time.monotonic() - start:.1f} s: gRPC {server.grpc_url}\n", flush=True)
            show(*releases, server.grpc_url, server.http_url, console)
        print("Triton is stopped.")
        return 0
    log = ranking.var / "serve.log"
    pid = start_in_background(ranking.repository, log, ports)
    print(f"Triton is ready after {time.monotonic() - start:.1f} s: gRPC {ports.grpc_url}\n", flush=True)
    try:
        show(*releases, ports.grpc_url, ports.http_url, console)
    except BaseException:
        os.kill(pid, signal.SIGTERM)
        raise
    print(f"Triton goes on; what it says is in {log}")
    for what in ("rank --user 42 --candidates 500 --top 10", 'target --query "space adventure"', "ads --user 42"):
        print(f"  ask:   {sys.argv[0]} {what} --repository {ranking.repository}")
    print(f"  stop:  kill {pid}")
    return 0
