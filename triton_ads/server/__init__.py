"""Outside Triton: launcher, watchdog, publishing."""

from triton_ads.server.install import ServerInstallError
from triton_ads.server.launcher import ServerStartError
from triton_ads.server.ports import PortTakenError
from triton_ads.server.server import TritonServer

__all__ = ["PortTakenError", "ServerInstallError", "ServerStartError", "TritonServer"]
