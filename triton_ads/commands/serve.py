"""Start the Triton server of the `nvidia-pytriton` wheel on a model repository, and keep it running.

    triton-ads serve
    triton-ads serve --repository var/repository --http-port 9000

It listens on 127.0.0.1 only, unless --address says otherwise. A watchdog repairs what dies; its endpoint says how
things are: /live, /ready, /status, /metrics.
Ctrl-C or SIGTERM stops everything, with exit status 0. Exit status 1: it could not be started, or the watchdog gave up.
"""

import argparse
import logging
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from triton_ads.client.request import json_body, rank_inputs
from triton_ads.commands.options import MAX_PORT, whole
from triton_ads.recipe.names import RANK, rankers
from triton_ads.server import PortTakenError, ServerInstallError, ServerStartError, TritonServer
from triton_ads.server.metrics import LATENCY_QUANTILES
from triton_ads.server.ports import HOST
from triton_ads.server.tls import tls_arguments

REPOSITORY = Path("var/repository")
HTTP_PORT, GRPC_PORT, METRICS_PORT, HEALTH_PORT = 8000, 8001, 8002, 8003
_PERIOD_S = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="the model repository (%(default)s)")
    for name, port in (("http", HTTP_PORT), ("grpc", GRPC_PORT), ("metrics", METRICS_PORT), ("health", HEALTH_PORT)):
        parser.add_argument(
            f"--{name}-port",
            type=whole(0, MAX_PORT),
            default=port,
            metavar="PORT",
            help="0: any free (%(default)s)",
        )
    parser.add_argument(
        "--not-strict", dest="strict", action="store_false", help="serve what can be loaded, even where a model cannot"
    )
    parser.add_argument(
        "--address",
        default=HOST,
        metavar="IP",
        help="what it listens on; 0.0.0.0 in a container, where model control then wants a key (%(default)s)",
    )
    parser.add_argument(
        "--folder", type=Path, help="where the log and links to the backends go (beside the repository)"
    )
    parser.add_argument(
        "--tritonserver", type=Path, metavar="FOLDER", help="a container image's own server; else the wheel's is used"
    )
    parser.add_argument("--tls", type=Path, metavar="FOLDER", help="gRPC with TLS: tls.crt and tls.key, PEM, are there")
    parser.add_argument(
        "--stop-timeout", type=whole(1, 600), default=5, metavar="S", help="for requests under way (%(default)s)"
    )
    parser.add_argument("--verbose", action="store_true", help="show all of Triton's log, and what models print")


class _StopAskedError(BaseException):
    """SIGINT or SIGTERM; not an Exception, so that nothing on the way takes it for a failure."""


def _stop(_signal: int, _frame: FrameType | None) -> None:
    # A second Ctrl-C must not break off the clean-up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _StopAskedError


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stdout)
    logging.getLogger("triton_ads.server").setLevel(logging.DEBUG if args.verbose else logging.INFO)
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    try:
        with _server(args) as server:
            _introduce(server, args.repository)
            while server.watchdog.live:
                time.sleep(_PERIOD_S)
            print(f"gave up: {server.watchdog.status()['reason']}", file=sys.stderr)
            return 1
    except _StopAskedError:
        print("stopped", flush=True)
        return 0
    except (ServerInstallError, PortTakenError, ServerStartError) as error:
        print(f"triton-ads serve: {error}", file=sys.stderr)
        return 1


def _server(args: argparse.Namespace) -> TritonServer:
    return TritonServer(
        args.repository,
        http_port=args.http_port,
        grpc_port=args.grpc_port,
        metrics_port=args.metrics_port,
        health_port=args.health_port,
        strict=args.strict,
        # One folder for each server that may run here at once.
        folder=args.folder or args.repository.resolve().parent / "server" / str(args.http_port),
        stop_timeout_s=args.stop_timeout,
        arguments=(*LATENCY_QUANTILES, *(tls_arguments(args.tls) if args.tls else ())),
        address=args.address,
        image=args.tritonserver,
    )


def _introduce(server: TritonServer, repository: Path) -> None:
    print(f"serving {repository}: {', '.join(server.models)}")
    print(f"  gRPC     {server.grpc_url}")
    print(f"  HTTP     http://{server.http_url}")
    print(f"  metrics  {server.metrics_url}")
    print(f"  health   {server.health_url}/ready  /live  /status")
    print(f"  log      {_shown(server.log_path)}")
    for model, reason in server.process.failures.items():
        print(f"not served: {model}: {reason}", file=sys.stderr)
    asked = [rank for rank in rankers(repository) if rank in server.models]
    if asked:
        request = _shown(server.log_path.with_name("request.json"))
        request.write_text(json_body(rank_inputs([1, 2, 3], user_id=42)))
        print("ask it, from another terminal:")
    for model in asked:
        print(f"  {_rank_command(server, repository, model)}")
        print(f"  curl -s http://{server.http_url}/v2/models/{model}/infer -d @{request}")
    print("Ctrl-C stops it", flush=True)


def _shown(path: Path) -> Path:
    """From here, where that is shorter."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _rank_command(server: TritonServer, repository: Path, model: str) -> str:
    command = "triton-ads rank --user 42 --candidates 500 --top 10"
    if model != RANK:
        command += f" --model {model}"
    if server.process.ports["gRPC"] != GRPC_PORT:
        command += f" --url {server.grpc_url}"
    if repository != REPOSITORY:
        command += f" --repository {repository}"
    return command
