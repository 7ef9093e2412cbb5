"""Starting a real server: what is said when it goes well, and when it does not."""

import logging
import socket
import time
import urllib.request

import pytest

from tests.support.echo_repository import write_echo
from triton_ads.server import PortTakenError, ServerStartError, TritonServer
from triton_ads.server.control import TritonControl
from triton_ads.server.ports import HOST
from triton_ads.server.processes import session_members, shared_regions

pytestmark = pytest.mark.server


def test_a_server_says_which_models_are_ready_and_nothing_of_a_missing_gpu(tmp_path, caplog):
    write_echo(tmp_path / "repository", "echo", instances=2)
    caplog.set_level(logging.INFO)
    with TritonServer(tmp_path / "repository", stop_timeout_s=1) as server:
        process = server.process
        session = process._guardian.pid
        assert server.models == ("echo",)
        assert [stub.model for stub in process.stubs()] == ["echo", "echo"]
        assert len(shared_regions(process.shm_prefix)) == 2
        assert "nv_cpu_utilization" in urllib.request.urlopen(server.metrics_url).read().decode()
        assert server.log_path.is_file()
    assert [record.getMessage() for record in caplog.records] == ["model echo is ready"]
    assert session_members(session) == []
    assert shared_regions(process.shm_prefix) == {}
    assert not server.log_path.exists()


def test_triton_listens_on_this_machine_only(server):
    address = next((a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)), HOST)
    for url in (server.grpc_url, server.http_url, server.metrics_url.split("/")[2], server.health_url.split("/")[2]):
        port = int(url.rsplit(":", 1)[1])
        socket.create_connection((HOST, port), timeout=1).close()
        if not address.startswith("127."):
            with pytest.raises(OSError):
                socket.create_connection((address, port), timeout=1).close()
        with pytest.raises(OSError):  # another address of the loopback interface
            socket.create_connection(("127.0.0.2", port), timeout=1).close()


@pytest.fixture
def half_broken(tmp_path):
    """One good model and each way to be broken."""
    repository = write_echo(tmp_path / "repository", "good")
    write_echo(repository, "raises", initialize='raise RuntimeError("the file of weights is missing")')
    write_echo(repository, "no_version")
    (repository / "no_version" / "1" / "model.py").unlink()
    (repository / "no_version" / "1").rmdir()
    write_echo(repository, "no_config")
    (repository / "no_config" / "config.pbtxt").write_text("name: [")
    return repository


def test_models_that_cannot_be_loaded_are_named_with_their_reasons(half_broken):
    with pytest.raises(ServerStartError) as raised, TritonServer(half_broken, folder=half_broken.parent / "log"):
        pass
    message = str(raised.value)
    assert "raises: Internal: RuntimeError: the file of weights is missing" in message
    assert "no_version: at least one version must be available" in message
    assert "no_config: failed to read text proto" in message
    assert "good" not in message


def test_without_strict_the_others_are_served(half_broken):
    with TritonServer(half_broken, strict=False, stop_timeout_s=0.5) as server:
        assert server.models == ("good",)
        assert set(server.process.failures) == {"raises", "no_version", "no_config"}
        ready = {m.model for m in TritonControl(server.http_url).index() if m.ready}
        assert ready == {"good"}


def test_a_taken_port_is_found_before_anything_is_started(tmp_path):
    write_echo(tmp_path / "repository")
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        port = listener.getsockname()[1]
        for option, purpose in (("grpc_port", "gRPC"), ("metrics_port", "metrics"), ("health_port", "health")):
            began = time.monotonic()
            with pytest.raises(PortTakenError, match=f"port {port}, wanted for {purpose}, is in use by .*pid"):
                TritonServer(tmp_path / "repository", **{option: port}).start()
            assert time.monotonic() - began < 0.5


def test_a_folder_that_is_no_repository(tmp_path):
    with pytest.raises(ServerStartError, match="no such folder"):
        TritonServer(tmp_path / "none", folder=tmp_path).start()
    with pytest.raises(ServerStartError, match="no model in it"):
        TritonServer(tmp_path, folder=tmp_path).start()


def test_a_start_that_takes_too_long_ends_with_what_the_log_says_last(tmp_path):
    write_echo(tmp_path / "repository", initialize='print("thinking", flush=True); import time; time.sleep(60)')
    began = time.monotonic()
    with pytest.raises(ServerStartError, match=r"(?s)not ready after 1 s.*loading: echo:1.*thinking"):
        TritonServer(tmp_path / "repository", folder=tmp_path, start_timeout_s=1).start()
    assert time.monotonic() - began < 5


def test_options_that_triton_does_not_know_are_shown(tmp_path):
    write_echo(tmp_path / "repository")
    with pytest.raises(ServerStartError, match=r"(?s)ended with status .*no-such-option"):
        TritonServer(tmp_path / "repository", folder=tmp_path, arguments=("--no-such-option",)).start()


def test_a_server_that_was_not_started_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="not running"):
        _ = TritonServer(tmp_path).grpc_url
