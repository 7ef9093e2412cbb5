"""A server that goes on when the command that started it has ended."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from triton_ads.commands.serve import GRPC_PORT, HEALTH_PORT, HTTP_PORT
from triton_ads.server import ServerStartError
from triton_ads.server.ports import HOST

GRPC_URL, HTTP_URL = f"{HOST}:{GRPC_PORT}", f"{HOST}:{HTTP_PORT}"
_READY_URL = f"http://{HOST}:{HEALTH_PORT}/ready"
_TIMEOUT_S, _PERIOD_S = 120.0, 0.2


def start_in_background(repository: Path, log: Path) -> int:
    """Start `triton-ads serve` in a session of its own and wait until it is ready.

    Returns:
        Its pid; SIGTERM stops it.

    Raises:
        ServerStartError: it ended or did not become ready; nothing is left running.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "triton_ads.cli", "serve", "--repository", str(repository)]
    with log.open("w") as file:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _await(server, log)
    except BaseException:
        server.terminate()
        server.wait()
        raise
    return server.pid


def _await(server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _TIMEOUT_S
    # Another server may answer on the port while ours has ended because the port was taken: ask after ours first.
    while server.poll() is None:
        try:
            with urllib.request.urlopen(_READY_URL, timeout=1):
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > end:
                raise ServerStartError(f"the server was not ready within {_TIMEOUT_S:.0f} s; see {log}") from None
            time.sleep(_PERIOD_S)
    said = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise ServerStartError("the server did not start:\n" + "\n".join(said))
