"""The tritonserver of the `nvidia-pytriton` wheel: where its parts are, and what it needs to run here.

The wheel holds the server, its Python backend, and one *stub* (the process that runs a model's Python code) for each
Python version. Triton wants the backend and the stub in one folder, and the stub wants a libpython and finds the
packages of the virtual environment only through the first `python3` in PATH (it ignores PYTHONPATH).
"""

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

WHEEL = "nvidia-pytriton"
MIN_GLIBC = (2, 35)
_STUB = "triton_python_backend_stub"
_NO_GPU = ("--allow-gpu-metrics=false", "--pinned-memory-pool-byte-size=0")


class ServerInstallError(RuntimeError):
    """This machine cannot run the wheel's server; the message says what is missing and how to get it."""


@dataclass(frozen=True)
class ServerInstall:
    """Paths of an installed server."""

    binary: Path
    python_backend: Path  # folder with libtriton_python.so
    stub: Path
    libraries: Path  # shared libraries that the wheel brings
    libpython: Path | None  # what the stub needs where the loader does not find one by itself
    arguments: tuple[str, ...] = ()  # options of tritonserver that this server needs everywhere
    other_backends: tuple[Path, ...] = ()  # folders of backends beside Python's

    def lay_out(self, folder: Path) -> Path:
        """Fill `folder` with links to the Python backend and its stub; returns what `--backend-directory` takes."""
        backend = folder / "backends" / "python"
        backend.mkdir(parents=True, exist_ok=True)
        parts = [p for p in self.python_backend.iterdir() if p.is_file()] + [self.stub]
        libraries = folder / "lib"
        libraries.mkdir(exist_ok=True)
        links = {backend / part.name: part for part in parts}
        if self.libpython is not None:
            links[libraries / self.libpython.name] = self.libpython
        links |= {backend.parent / other.name: other for other in self.other_backends}
        for link, target in links.items():
            link.unlink(missing_ok=True)
            link.symlink_to(target)
        return backend.parent

    def environment(self, folder: Path) -> dict[str, str]:
        """The environment of the server whose backend was laid out in `folder`."""
        libraries = [str(self.libraries), str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        binaries = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(filter(None, libraries)),
            "PATH": ":".join(binaries),
        }


def find_server() -> ServerInstall:
    """Find the wheel's server and check that it can run here.

    Raises:
        ServerInstallError: another platform, an older glibc, no wheel, no stub or no libpython for this Python.
    """
    _check_platform(sys.platform, platform.machine(), platform.libc_ver())
    try:
        files = importlib.metadata.distribution(WHEEL)
    except importlib.metadata.PackageNotFoundError:
        raise ServerInstallError(
            f"the package {WHEEL}, which brings the Triton server, is not installed in {sys.prefix}: "
            "pip install 'triton-ads[server]'"
        ) from None
    site = Path(str(files.locate_file("")))
    root = site / "pytriton" / "tritonserver"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = root / "python_backend_stubs" / python / _STUB
    if not stub.is_file():
        have = sorted(p.name for p in (root / "python_backend_stubs").glob("*") if (p / _STUB).is_file())
        raise ServerInstallError(
            f"{WHEEL} {files.version} has no Python backend stub for Python {python}; "
            f"it has: {', '.join(have) or 'none'}"
        )
    install = ServerInstall(
        binary=root / "bin" / "tritonserver",
        python_backend=root / "backends" / "python",
        stub=stub,
        libraries=site / "nvidia_pytriton.libs",
        libpython=_libpython(f"libpython{python}.so.1.0"),
        arguments=_NO_GPU,
    )
    for path in (install.binary, install.python_backend / "libtriton_python.so", install.libraries):
        if not path.exists():
            raise ServerInstallError(f"{WHEEL} {files.version} is damaged, {path} is missing: reinstall it")
    return install


def _check_platform(system: str, machine: str, libc: tuple[str, str]) -> None:
    name, version = libc
    if system != "linux" or machine != "x86_64" or name != "glibc":
        raise ServerInstallError(
            "the wheel's server runs on Linux x86_64 with glibc, "
            f"this is {system} {machine} {name or 'without glibc'}: use the Docker image"
        )
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_GLIBC:
        raise ServerInstallError(
            f"the wheel's server needs glibc {'.'.join(map(str, MIN_GLIBC))} or later, this machine has {version}: "
            "use the Docker image"
        )


def _libpython(name: str) -> Path | None:
    """The running Python's own libpython, or None where only the system's loader has one."""
    for folder in (sysconfig.get_config_var("LIBDIR"), Path(sys.base_prefix) / "lib"):
        if folder and (Path(folder) / name).is_file():
            return Path(folder) / name
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        known = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    except OSError:
        known = ""
    if name not in known:
        raise ServerInstallError(
            f"the Python backend needs {name}, which is neither in {sys.base_prefix}/lib nor known to the loader: "
            f"install the package that brings it (Debian, Ubuntu: {name.removesuffix('.so.1.0')})"
        )
    return None
