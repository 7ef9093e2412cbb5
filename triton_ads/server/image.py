"""The tritonserver of a container image: a folder that holds all of it, /opt/tritonserver in NVIDIA's.

Its Python backend comes with one stub, for the Python of the image; that is the Python which must run us.
"""

from pathlib import Path

from triton_ads.server.install import ServerInstall, ServerInstallError

_STUB = "triton_python_backend_stub"


def find_image_server(root: Path) -> ServerInstall:
    """The server below `root`, with every backend that it has.

    Raises:
        ServerInstallError: no server there, or one without the Python backend.
    """
    backends = root / "backends"
    install = ServerInstall(
        binary=root / "bin" / "tritonserver",
        python_backend=backends / "python",
        stub=backends / "python" / _STUB,
        libraries=root / "lib",
        libpython=None,
        other_backends=tuple(sorted(p for p in backends.glob("*") if p.is_dir() and p.name != "python")),
    )
    for path in (install.binary, install.python_backend / "libtriton_python.so", install.stub, install.libraries):
        if not path.exists():
            raise ServerInstallError(f"no Triton server with the Python backend in {root}: {path} is missing")
    return install
