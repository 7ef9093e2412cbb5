"""All of it, on one machine: build the recipe, start the real server, rank ads for three users, stop.

  triton-ads demo             `triton-ads build`, then three users over gRPC and HTTP
  triton-ads demo --keep      leaves the server running; says how to ask it and how to stop it

scripts/demo.sh makes the environment that this needs, and runs it.
"""

import argparse
import os
import signal
import sys
import time

from triton_ads.commands.build import add_arguments


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument("--keep", action="store_true", help="leave the server running, on the ports of `serve`")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from triton_ads.demo.background import Ports, start_in_background
    from triton_ads.demo.users import show_users
    from triton_ads.inspection.summary import summary
    from triton_ads.pipeline.build import build
    from triton_ads.pipeline.runner import Selection
    from triton_ads.server import TritonServer

    console, ports = Console(), Ports()
    if args.keep:
        ports.check()  # now, not after minutes of building
    layout = build(args.recipe, args.var, Selection())
    console.print(summary(layout))
    release = layout.release.resolve()
    start = time.monotonic()
    print("Starting Triton ...", flush=True)
    if not args.keep:
        with TritonServer(layout.repository) as server:
            print(f"Triton is ready after {time.monotonic() - start:.1f} s: gRPC {server.grpc_url}\n", flush=True)
            show_users(release, server.grpc_url, server.http_url, console)
        print("Triton is stopped.")
        return 0
    log = layout.var / "serve.log"
    pid = start_in_background(layout.repository, log, ports)
    print(f"Triton is ready after {time.monotonic() - start:.1f} s: gRPC {ports.grpc_url}\n", flush=True)
    try:
        show_users(release, ports.grpc_url, ports.http_url, console)
    except BaseException:
        os.kill(pid, signal.SIGTERM)
        raise
    print(f"\nTriton goes on; what it says is in {log}")
    print(f"  ask:   {sys.argv[0]} rank --user 42 --candidates 500 --top 10 --repository {layout.repository}")
    print(f"  stop:  kill {pid}")
    return 0
