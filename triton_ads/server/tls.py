"""TLS for gRPC, by Triton itself. Its HTTP has none: that takes a proxy in front."""

from pathlib import Path

from triton_ads.server.launcher import ServerStartError

#: As a Kubernetes secret of type kubernetes.io/tls is mounted.
CERTIFICATE, KEY = "tls.crt", "tls.key"


def tls_arguments(folder: Path) -> tuple[str, ...]:
    """Options of tritonserver for the certificate and the key, both PEM, in `folder`.

    Raises:
        ServerStartError: one of them is missing; Triton itself would only say that it cannot open its port.
    """
    for name in (CERTIFICATE, KEY):
        if not (folder / name).is_file():
            raise ServerStartError(f"TLS needs {CERTIFICATE} and {KEY} in {folder}: {name} is missing")
    return (
        "--grpc-use-ssl=true",
        f"--grpc-server-cert={folder / CERTIFICATE}",
        f"--grpc-server-key={folder / KEY}",
    )
