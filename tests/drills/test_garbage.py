"""Garbage on both ports: the server lives, and answers those beside it."""

import http.client
import time

import grpc
import pytest

from tests.drills.garbage import grpc_messages, http_bodies
from tests.drills.traffic import Traffic, check_no_mixture, questions_alone
from triton_ads.server import TritonServer
from triton_ads.server.watchdog import WatchdogLimits

pytestmark = pytest.mark.server

METHOD = "/inference.GRPCInferenceService/ModelInfer"


@pytest.fixture
def robust(repository):
    with TritonServer(repository, limits=WatchdogLimits(canary_period_s=1.0)) as server:
        yield server


def post(server, body, headers):
    """The status of the answer."""
    connection = http.client.HTTPConnection(server.http_url, timeout=10)
    try:
        connection.request("POST", "/v2/models/rank/infer", body, headers)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def call(channel, message):
    """The name of the status of the answer."""
    try:
        channel.unary_unary(METHOD)(message, timeout=10)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def test_fuzzed_requests_are_refused_and_neighbours_answered(robust, report, full):
    """With retries: a broken string over gRPC is told to the whole batch, a fault of the wheel's server."""
    count = 20_000 if full else 1_000
    alone = questions_alone(robust)
    pids = {stub.pid for stub in robust.process.stubs()} | {robust.process.server_pid()}
    with Traffic(robust, clients=2, retries=5) as neighbours:
        statuses = [post(robust, body, headers) for body, headers in http_bodies(count, seed=1)]
        with grpc.insecure_channel(robust.grpc_url) as channel:
            codes = [call(channel, message) for message in grpc_messages(count, seed=2)]
        neighbours.wait(10)
    assert {stub.pid for stub in robust.process.stubs()} | {robust.process.server_pid()} == pids
    assert neighbours.errors == []
    check_no_mixture(neighbours.answers, alone)
    assert robust.watchdog.counts.restarts == robust.watchdog.counts.reloads == 0
    refused = (sum(status >= 400 for status in statuses), sum(code != "OK" for code in codes))
    assert min(refused) > count // 2  # else it was not garbage
    assert set(codes) <= {"OK", "INVALID_ARGUMENT", "INTERNAL", "UNIMPLEMENTED", "CANCELLED", "NOT_FOUND"}
    answered = len(neighbours.answers)
    report(
        "garbage", f"{count} of each protocol, {refused[0]} and {refused[1]} refused, {answered} neighbours answered"
    )


#: A shape that the data has nothing to do with: the wheel's server (2.51) allocates 8 TB before it looks, and ends.
FATAL = b'{"inputs":[{"name":"candidates","datatype":"INT64","shape":[1,1000000000000],"data":[1]}]}'


def test_the_request_that_ends_the_server_costs_seconds(robust, report):
    """A fault of the server's binary, which no configuration of ours can prevent: what the watchdog makes of it."""
    pid = robust.process.server_pid()
    with Traffic(robust, clients=4, retries=8) as neighbours:
        neighbours.wait(20)
        with pytest.raises(http.client.RemoteDisconnected):
            post(robust, FATAL, {})
        began = time.monotonic()
        while not robust.watchdog.counts.restarts or not robust.watchdog.ready:
            assert time.monotonic() - began < 30
            time.sleep(0.02)
        seconds = time.monotonic() - began
        neighbours.wait(20)
    assert robust.process.server_pid() != pid
    assert neighbours.errors == []
    report(
        "fatal request",
        f"{len(FATAL)} bytes end the server; back after {seconds:.1f} s, clients with retries lost none",
    )
