"""What to do when no server answers a command."""

import socket

from triton_ads.client import ServerUnavailableError
from triton_ads.client.connection import DEFAULT_URLS, Protocol

_OTHER: dict[Protocol, Protocol] = {"grpc": "http", "http": "grpc"}
_NAMES: dict[Protocol, str] = {"grpc": "gRPC", "http": "HTTP"}
_CONNECT_S = 1.0


def hint(error: ServerUnavailableError, url: str | None, protocol: Protocol) -> str:
    """A line: a program that listens at the address and does not speak the protocol is no server to be started."""
    url, name, other = url or DEFAULT_URLS[protocol], _NAMES[protocol], _OTHER[protocol]
    if f"no server answers {name}" in str(error) and _listens(url):
        port, other_port = (DEFAULT_URLS[p].rpartition(":")[2] for p in (protocol, other))
        return (
            f"Something listens at {url} that does not speak {name}, whose port is usually {port}; "
            f"{_NAMES[other]}, usually {other_port}, is asked with --protocol {other}"
        )
    return "Start a server with: triton-ads serve"


def _listens(url: str) -> bool:
    host, _, port = url.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError:
        return False
    return True
