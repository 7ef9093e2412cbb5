"""Outside Triton: launcher, watchdog, publishing.

Names are imported when they are asked for: the guardian, a process that each server has, needs none of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triton_ads.server.install import ServerInstallError
    from triton_ads.server.launcher import ServerStartError
    from triton_ads.server.ports import PortTakenError
    from triton_ads.server.server import TritonServer

__all__ = ["PortTakenError", "ServerInstallError", "ServerStartError", "TritonServer"]

_MODULES = {
    "PortTakenError": "ports",
    "ServerInstallError": "install",
    "ServerStartError": "launcher",
    "TritonServer": "server",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
