"""A server that is reached from beyond this machine, as in a container: what is open, what wants the key."""

import http.client
import json
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.support.echo_repository import write_echo
from triton_ads.server import ServerInstallError, TritonServer
from triton_ads.server.control import KEY_HEADER, ControlError, TritonControl
from triton_ads.server.image import find_image_server
from triton_ads.server.install import find_server

pytestmark = pytest.mark.server

# Every address of the loopback interface stands for "another machine": 127.0.0.1 is what is listened on by default.
ELSEWHERE = "127.0.0.2"


def image_folder(root: Path) -> Path:
    """The wheel's server laid out as it is in NVIDIA's image."""
    wheel = find_server()
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tritonserver").symlink_to(wheel.binary)
    (root / "lib").symlink_to(wheel.libraries)
    (root / "backends" / "python").mkdir(parents=True)
    (root / "backends" / "onnxruntime").mkdir()
    for part in [*wheel.python_backend.iterdir(), wheel.stub]:
        (root / "backends" / "python" / part.name).symlink_to(part)
    return root


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    folder = tmp_path_factory.mktemp("open")
    write_echo(folder / "repository", "echo")
    # The image brings its options itself; on a machine without a GPU these keep the log short.
    quiet = ("--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0")
    with TritonServer(
        folder / "repository",
        folder=folder / "run",
        address="0.0.0.0",
        image=image_folder(folder / "image"),
        arguments=quiet,
        stop_timeout_s=1,
    ) as running:
        yield running


def port_of(url: str) -> int:
    return int(url.split("//")[-1].split("/")[0].rsplit(":", 1)[1])


def test_all_four_ports_answer_elsewhere(server: TritonServer) -> None:
    for url, path in (
        (server.http_url, "/v2/health/ready"),
        (server.health_url, "/ready"),
        (server.metrics_url, "/metrics"),
    ):
        assert urllib.request.urlopen(f"http://{ELSEWHERE}:{port_of(url)}{path}", timeout=5).status == 200
    with triton_grpc.InferenceServerClient(f"{ELSEWHERE}:{port_of(server.grpc_url)}") as client:
        assert client.is_model_ready("echo")


def test_the_watchdogs_page_of_metrics(server: TritonServer) -> None:
    page = urllib.request.urlopen(f"{server.health_url}/metrics", timeout=5)
    assert page.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "\ntriton_ads_ready 1\n" in page.read().decode()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/repository/index"),
        ("POST", "/v2/repository/models/echo/unload"),
        ("GET", "/v2/systemsharedmemory/status"),
        ("POST", "/v2/systemsharedmemory/region/x/register"),
        ("GET", "/v2/cudasharedmemory/status"),
        ("GET", "/v2/trace/setting"),
        ("GET", "/v2/logging"),
    ],
)
def test_http_control_is_closed_without_the_key(server: TritonServer, method: str, path: str) -> None:
    for headers in ({}, {KEY_HEADER: "guess"}):
        connection = http.client.HTTPConnection(server.http_url, timeout=5)
        connection.request(method, path, "{}" if method == "POST" else None, headers)
        response = connection.getresponse()
        assert response.status == 403, response.read()
        assert "restricted" in json.loads(response.read())["error"]
        connection.close()


def test_grpc_control_is_closed_without_the_key(server: TritonServer) -> None:
    with triton_grpc.InferenceServerClient(server.grpc_url) as client:
        calls = (
            client.get_model_repository_index,
            lambda: client.unload_model("echo"),
            client.get_system_shared_memory_status,
            lambda: client.register_system_shared_memory("x", "/x", 8),
            client.get_cuda_shared_memory_status,
        )
        for call in calls:
            with pytest.raises(InferenceServerException, match=r"restricted|expecting header"):
                call()
        key = server.process.options.control_key_file.read_text()
        headers = {f"triton-grpc-protocol-{KEY_HEADER}": key}
        assert client.get_model_repository_index(headers=headers).models[0].name == "echo"


def test_the_key_opens_control_and_only_its_owner_may_read_it(server: TritonServer) -> None:
    file = server.process.options.control_key_file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert TritonControl(server.http_url, file.read_text()).index()[0].model == "echo"
    with pytest.raises(ControlError, match="status 403"):
        TritonControl(server.http_url).index()


def test_a_server_of_this_machine_alone_wants_no_key(tmp_path: Path) -> None:
    write_echo(tmp_path / "repository", "echo")
    with TritonServer(tmp_path / "repository", stop_timeout_s=1) as server:
        assert TritonControl(server.http_url).index()[0].model == "echo"
        assert not server.process.options.control_key_file.exists()


def test_a_folder_without_a_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerInstallError, match=f"no Triton server .* in {tmp_path}: {tmp_path}/bin/tritonserver"):
        find_image_server(tmp_path)
