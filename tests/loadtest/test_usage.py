"""Processor time and memory of a server's processes, and how they are found."""

import socket
import subprocess
import sys
import time

import pytest

from triton_ads.loadtest.load import Running
from triton_ads.loadtest.run import usage
from triton_ads.loadtest.usage import Sample, Sampler, find_server

BURN = """
import time
kept = bytearray(40_000_000)
while time.process_time() < 1: pass
print(flush=True)
input()
"""


def test_the_processes_behind_a_port_are_those_of_the_server(server):
    port = int(server.http_url.rpartition(":")[2])
    found = find_server(port)
    assert found == Running(port, server.process.members()[0].session)


def test_what_listens_on_a_port_and_is_no_triton_is_not_taken_for_one():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        listening.listen()
        assert find_server(port) is None
    assert find_server(port) is None


@pytest.mark.server
def test_a_sample_names_the_server_and_the_models_that_its_processes_run(server):
    port = int(server.http_url.rpartition(":")[2])
    running = find_server(port)
    assert running is not None
    with Sampler(running) as sampler:
        pass
    (sample, *_) = sampler.samples
    assert {"tritonserver", "guardian"} < set(sample.cpu_s) == set(sample.memory_bytes)
    assert {stub.model for stub in server.process.stubs()} <= set(sample.cpu_s)
    assert min(sample.memory_bytes[name] for name in ("tritonserver", "guardian")) > 1_000_000


def test_time_and_memory_are_what_a_process_uses():
    with subprocess.Popen(
        [sys.executable, "-c", BURN], start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        with Sampler(Running(0, process.pid)) as sampler:
            process.stdout.readline()
            time.sleep(0.05)
        process.communicate(b"\n")
    last = sampler.samples[-1]
    assert sum(last.cpu_s.values()) == pytest.approx(1, abs=0.3)
    assert sum(last.memory_bytes.values()) > 40_000_000


def test_cores_are_the_difference_of_two_samples():
    samples = [
        Sample(10.0, {"rank": 5.0}, {"rank": 10**6}),
        Sample(11.0, {"rank": 5.5, "other": 0.25}, {"rank": 2 * 10**6, "other": 10**6}),
        Sample(13.0, {"rank": 7.5}, {"rank": 10**6}),
        Sample(13.01, {"rank": 7.5}, {"rank": 10**6}),  # too soon after the last to say anything
    ]
    first, second = usage(samples)
    assert (first.at_s, first.cores, first.memory_mb) == (
        1.0,
        {"rank": 0.5, "other": 0.25},
        {"rank": 2.0, "other": 1.0},
    )
    assert (second.at_s, second.cores) == (3.0, {"rank": 1.0})
