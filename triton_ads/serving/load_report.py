"""What all models of a release tell who chooses tiers: how many requests they had, and how many were too late.

They may be other processes. A report is a datagram to an address in Linux's abstract name space: nobody waits for it,
it is lost where no router listens, and nothing is left behind when a process dies. The address names the server's
process and the release, so several servers and releases on a machine do not hear each other.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from triton_ads.serving import counters as count
from triton_ads.serving.counters import Metric
from triton_ads.serving.errors import Cause

_FORMAT = struct.Struct("=dd")  # requests, of those too late


def _address(release: Path, instance: int) -> str:
    # The parent of all models' processes is the server.
    return f"\0triton_ads.load.{os.getppid()}.{release.resolve().name}.{instance}"


class LoadSender:
    """A model's reports to all instances of the router: a sink of counters."""

    def __init__(self, release: Path, instances: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._addresses = [_address(release, i) for i in range(instances)]

    def add(self, metric: Metric, labels: tuple[str, ...], amount: float) -> None:
        if metric == count.REQUESTS:
            self._send(amount, 0.0)
        elif metric == count.REFUSED and labels == (Cause.DEADLINE,):
            self._send(0.0, amount)

    def _send(self, requests: float, late: float) -> None:
        for address in self._addresses:
            with contextlib.suppress(OSError):  # no such router, or it has not read for long
                self._socket.sendto(_FORMAT.pack(requests, late), address)

    def close(self) -> None:
        self._socket.close()


class LoadReceiver:
    """The reports to one instance of the router; the first address that is free is its own."""

    def __init__(self, release: Path, instances: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._addresses = [_address(release, i) for i in range(instances)]
        self._bound = self._bind()

    def _bind(self) -> bool:
        for address in self._addresses:
            with contextlib.suppress(OSError):  # another instance's
                self._socket.bind(address)
                return True
        return False

    def read(self, saw: Callable[[float, float], None]) -> None:
        """Hand over what has come since the last call: requests, and of those too late."""
        # While a model is loaded again, the old process still has the address.
        self._bound = self._bound or self._bind()
        with contextlib.suppress(BlockingIOError):
            while True:
                report = self._socket.recv(64)
                if len(report) == _FORMAT.size:
                    saw(*_FORMAT.unpack(report))

    def close(self) -> None:
        self._socket.close()
