"""Ports of this machine: choose free ones, and say who holds one that is taken.

Triton itself finds a port taken only after it has loaded every model, so ports are checked before it starts.
"""

import errno
import socket
from pathlib import Path

HOST = "127.0.0.1"
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


class PortTakenError(RuntimeError):
    """A port that was asked for is in use; the message says for what it was wanted and by whom it is held."""


def choose_ports(wanted: dict[str, int]) -> dict[str, int]:
    """Ports of HOST by purpose; 0 asks for any free one, a number is checked to be free.

    Raises:
        PortTakenError: a port is in use, is not allowed to this user, or is asked for twice.
    """
    held: list[socket.socket] = []
    chosen: dict[str, int] = {}
    try:
        # Fixed ports first, so that a free one never takes a port that is asked for by number.
        for purpose, port in sorted(wanted.items(), key=lambda item: item[1] == 0):
            # SO_REUSEADDR, as the server does: connections of an earlier server in TIME_WAIT are no obstacle.
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.append(probe)
            try:
                probe.bind((HOST, port))
                probe.listen()
            except OSError as error:
                raise PortTakenError(_explain(purpose, port, chosen, error)) from None
            chosen[purpose] = probe.getsockname()[1]
    finally:
        for probe in held:
            probe.close()
    return {purpose: chosen[purpose] for purpose in wanted}


def _explain(purpose: str, port: int, chosen: dict[str, int], error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"port {port} cannot be used for {purpose}: {error.strerror}"
    twice = [other for other, taken in chosen.items() if taken == port]
    if twice:
        return f"port {port} is asked for twice, for {twice[0]} and for {purpose}"
    return f"port {port}, wanted for {purpose}, is in use by {port_holder(port) or 'an unknown process'}"


def port_holder(port: int) -> str | None:
    """The process that listens on a TCP port, as "NAME (pid N)"; None where it may not be known."""
    inodes = _listening_inodes(port)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(_target(link) in inodes for link in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
        except OSError:  # gone meanwhile, or another user's
            continue
    return None


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed meanwhile
        return ""


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return inodes
