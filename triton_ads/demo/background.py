"""A server that goes on when the command that started it has ended."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

from triton_ads.commands.serve import GRPC_PORT, HEALTH_PORT, HTTP_PORT, METRICS_PORT
from triton_ads.server import ServerStartError
from triton_ads.server.ports import HOST, choose_ports

_TIMEOUT_S, _PERIOD_S = 120.0, 0.2


@dataclass(frozen=True)
class Ports:
    """Where the server listens; by default where `triton-ads serve` does, so that `triton-ads rank` finds it."""

    http: int = HTTP_PORT
    grpc: int = GRPC_PORT
    metrics: int = METRICS_PORT
    health: int = HEALTH_PORT

    @property
    def grpc_url(self) -> str:
        return f"{HOST}:{self.grpc}"

    @property
    def http_url(self) -> str:
        return f"{HOST}:{self.http}"

    def check(self) -> None:
        """
        Raises:
            PortTakenError: one of them is in use, perhaps by an earlier server.
        """
        choose_ports(asdict(self))


def start_in_background(repository: Path, log: Path, ports: Ports) -> int:
    """Start `triton-ads serve` in a session of its own and wait until it is ready.

    Returns:
        Its pid; SIGTERM stops it.

    Raises:
        PortTakenError: a port is in use; nothing was started.
        ServerStartError: it ended or did not become ready; nothing is left running.
    """
    ports.check()  # the server asks as well, but until it has another one would answer in its place
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "triton_ads.cli", "serve", "--repository", str(repository)]
    for name, port in asdict(ports).items():
        command += [f"--{name}-port", str(port)]
    with log.open("w") as file:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _await(server, f"http://{HOST}:{ports.health}/ready", log)
    except BaseException:
        server.terminate()
        server.wait()
        raise
    return server.pid


def _await(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > end:
                raise ServerStartError(f"the server was not ready within {_TIMEOUT_S:.0f} s; see {log}") from None
            time.sleep(_PERIOD_S)
    said = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise ServerStartError("the server did not start:\n" + "\n".join(said))
