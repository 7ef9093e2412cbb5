"""gRPC with TLS: a client that trusts the certificate is answered, one without TLS is not."""

import subprocess
from pathlib import Path

import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.support.echo_repository import write_echo
from triton_ads.cli import main
from triton_ads.server import ServerStartError, TritonServer
from triton_ads.server.tls import tls_arguments


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A certificate of this machine's own."""
    folder = tmp_path / "secret"
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", folder / "tls.key", "-out", folder / "tls.crt", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    return folder


@pytest.mark.server
def test_grpc_wants_tls(tmp_path: Path, secret: Path) -> None:
    write_echo(tmp_path / "repository")
    with TritonServer(tmp_path / "repository", arguments=tls_arguments(secret), stop_timeout_s=1) as server:
        trusting = {"ssl": True, "root_certificates": str(secret / "tls.crt")}
        with triton_grpc.InferenceServerClient(server.grpc_url, **trusting) as client:
            assert client.is_model_ready("echo")
        with (
            triton_grpc.InferenceServerClient(server.grpc_url) as client,
            pytest.raises(InferenceServerException, match="UNAVAILABLE"),
        ):
            client.is_model_ready("echo")


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_what_is_missing_is_named_before_anything_starts(
    secret: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (secret / name).unlink()
    with pytest.raises(ServerStartError, match=f"{name} is missing"):
        tls_arguments(secret)
    assert main(["serve", "--tls", str(secret)]) == 1
    assert (
        capsys.readouterr().err == f"triton-ads serve: TLS needs tls.crt and tls.key in {secret}: {name} is missing\n"
    )
