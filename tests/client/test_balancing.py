"""One name, several servers: requests of one client go to all of them."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.echo_repository import write_echo
from triton_ads.client.transport import GrpcTransport
from triton_ads.server import TritonServer

pytestmark = pytest.mark.server


def test_requests_of_one_client_go_to_every_server_of_a_name(tmp_path: Path) -> None:
    write_echo(tmp_path / "repository")
    x_BN = np.arange(3, dtype=np.int64)[None]
    with (
        TritonServer(tmp_path / "repository", stop_timeout_s=1) as one,
        TritonServer(tmp_path / "repository", stop_timeout_s=1) as other,
    ):
        # What a resolver of names answers for a headless service: the addresses of all servers.
        transport = GrpcTransport(f"ipv4:{one.grpc_url},{other.grpc_url}", channels=1)
        for _ in range(20):
            np.testing.assert_array_equal(transport.infer("echo", {"x": x_BN}, 10)["y"], x_BN)
        transport.close()
        counts = [server.process.control.executions()["echo"] for server in (one, other)]
    assert sum(counts) == 20 and min(counts) >= 8, counts
