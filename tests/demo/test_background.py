"""A server that outlives its caller: ready, found by its pid, gone when told."""

import os
import signal
import socket
from pathlib import Path

import pytest

from triton_ads.client import RankClient
from triton_ads.demo.background import Ports, start_in_background
from triton_ads.server import PortTakenError, ServerStartError
from triton_ads.server.ports import HOST, choose_ports

pytestmark = pytest.mark.server


@pytest.fixture
def ports() -> Ports:
    return Ports(**choose_ports(dict.fromkeys(("http", "grpc", "metrics", "health"), 0)))


def test_it_answers_until_it_is_told_to_stop(repository: Path, tmp_path: Path, ports: Ports) -> None:
    pid = start_in_background(repository, tmp_path / "log", ports)
    try:
        assert os.getsid(pid) == pid  # a session of its own: Ctrl-C of the caller's terminal does not reach it
        with RankClient(ports.grpc_url) as client:
            assert len(client.rank([1, 2, 3])) == 3
    finally:
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    ports.check()  # all free again
    assert "stopped" in (tmp_path / "log").read_text()


def test_a_port_in_use_is_told_before_anything_starts(repository: Path, tmp_path: Path, ports: Ports) -> None:
    with socket.create_server((HOST, ports.grpc)), pytest.raises(PortTakenError, match=f"port {ports.grpc}"):
        start_in_background(repository, tmp_path / "log", ports)
    assert not (tmp_path / "log").exists()


def test_why_it_did_not_start(tmp_path: Path, ports: Ports) -> None:
    with pytest.raises(ServerStartError, match=r"did not start:\n.*model repository .*: no such folder"):
        start_in_background(tmp_path / "repository", tmp_path / "log", ports)
    ports.check()
