"""Load as people make it, in locust's own way: journeys of Zipf users, log-normal numbers of candidates.

    locust -f clients/locustfile.py                       its page: http://127.0.0.1:8089
    locust -f clients/locustfile.py --headless --users 50 --spawn-rate 10 --run-time 60s
    locust -f clients/locustfile.py GrpcRanker --host 127.0.0.1:9001

Needs `pip install -e .[load]` and a server, as `triton-ads serve` starts one. Without a port in --host both protocols
are used, on the ports of `triton-ads serve`; with a port, name the class that speaks its protocol. Users and ads are
those of the release that --repository has; for a server elsewhere, --users-up-to and --ads-up-to say that their ids are
1 to N. Load goes to this machine only, for three minutes, unless --remote and --run-time say else.

A locust user is a closed loop: it waits for its answer, so a slow server is asked less. The rate that a server can
hold is what `triton-ads loadtest` finds, with the same traffic in an open loop (docs/load.md).
"""

# Before anything opens a gRPC channel: locust has made Python's sockets gevent's, and gRPC has its own.
import grpc.experimental.gevent as grpc_gevent

grpc_gevent.init_gevent()

import logging  # noqa: E402
import time  # noqa: E402
from functools import cache  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from locust import User, events, task  # noqa: E402
from locust.env import Environment  # noqa: E402

from triton_ads.client import RankClient, RankError  # noqa: E402
from triton_ads.commands.rank import current_release, ranker  # noqa: E402
from triton_ads.loadtest.traffic import Traffic  # noqa: E402
from triton_ads.manifest import Manifest  # noqa: E402

_PORTS = {"http": 8000, "grpc": 8001}
_HERE = ("127.0.0.1", "localhost")
#: Pages of a journey, and seconds between two of them, in the mean.
_PAGES, _THINK_S = 5, 1.0


@events.init_command_line_parser.add_listener
def _options(parser: Any) -> None:
    parser.set_defaults(host="127.0.0.1", web_host="127.0.0.1", run_time="3m")
    parser.add_argument("--repository", default="var/repository", help="that is being served")
    parser.add_argument("--model", default=None, help="PREFIX_rank of a recipe with a prefix")
    parser.add_argument("--tier", default="", help="insist on a tier")
    parser.add_argument("--deadline-ms", type=float, default=100, help="of every request")
    parser.add_argument("--users-up-to", type=int, default=0, metavar="N", help="ids of users are 1 to N")
    parser.add_argument("--ads-up-to", type=int, default=0, metavar="N", help="ids of ads are 1 to N")
    parser.add_argument("--remote", action="store_true", help="allow a server that is not on this machine")


@events.test_start.add_listener
def _check(environment: Environment, **_: Any) -> None:
    """A wrong option ends the test, not each of its requests."""
    try:
        _traffic(environment)
        for users in environment.user_classes:
            _client(environment, users.protocol)
    except (OSError, RuntimeError, ValueError) as error:
        logging.getLogger("locustfile").error("%s", error)
        environment.process_exit_code = 1
        if environment.runner is not None:
            environment.runner.quit()


def _traffic(environment: Environment) -> Traffic:
    options = environment.parsed_options
    return _traffic_of(options.repository, options.model, options.users_up_to, options.ads_up_to)


@cache
def _traffic_of(repository: str, model: str | None, users: int, ads: int) -> Traffic:
    if users and ads:
        return Traffic(np.arange(1, users + 1), np.arange(1, ads + 1))
    if users or ads:
        raise ValueError(f"--users-up-to {users}, --ads-up-to {ads} found; both or none are allowed")
    release = current_release(Path(repository), ranker(Path(repository), model))
    return Traffic.of_release(release, Manifest.load(release, verify_files=False).recipe.serving.max_candidates)


def _client(environment: Environment, protocol: str) -> RankClient:
    options = environment.parsed_options
    host, _, port = (environment.host or "").removeprefix("http://").rstrip("/").partition(":")
    if host not in _HERE and not options.remote:
        raise ValueError(f"--host: {host!r} found, 127.0.0.1 allowed; for a server elsewhere add --remote")
    if port and len(environment.user_classes) > 1:
        raise ValueError(f"--host: port {port} found, and two protocols; name one class: GrpcRanker or HttpRanker")
    return _client_of(f"{host}:{port or _PORTS[protocol]}", protocol, options.model)


@cache
def _client_of(url: str, protocol: Any, model: str | None) -> RankClient:
    """One client for all users of a protocol; under load a single gRPC channel becomes the bottleneck."""
    return RankClient(url, protocol, model=model, timeout_s=5.0, pool=4)


class _Ranker(User):
    """Somebody who looks at some pages of ads, thinks, and is then somebody else."""

    abstract = True
    protocol = ""

    def on_start(self) -> None:
        self._random = np.random.default_rng()
        self._traffic = _traffic(self.environment)
        self._client = _client(self.environment, self.protocol)
        self._somebody = self._traffic.user(self._random)

    def wait_time(self) -> float:
        return float(self._random.exponential(_THINK_S))

    @task
    def page(self) -> None:
        options = self.environment.parsed_options
        candidates = self._traffic.candidates(self._random)
        name, failure, began = "rank", None, time.perf_counter()
        try:
            ranking = self._client.rank(
                candidates, user_id=self._somebody, deadline_ms=options.deadline_ms, tier=options.tier
            )
            name = f"rank, tier {ranking.tier}"
        except RankError as error:
            failure = error
        self.environment.events.request.fire(
            request_type=self.protocol,
            name=name,
            response_time=(time.perf_counter() - began) * 1e3,
            response_length=len(candidates),
            exception=failure,
            context={},
        )
        if self._random.random() < 1 / _PAGES:
            self._somebody = self._traffic.user(self._random)


class GrpcRanker(_Ranker):
    protocol = "grpc"


class HttpRanker(_Ranker):
    protocol = "http"
