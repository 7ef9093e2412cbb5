"""host:port, checked before a connection is made: what goes wrong later names neither."""

import re

_LABEL = r"[A-Za-z0-9_-]{1,63}"
_ADDRESS = re.compile(rf"(?:\[[0-9A-Fa-f:.]{{2,45}}\]|{_LABEL}(?:\.{_LABEL})*):([0-9]{{1,5}})")
_SHOWN = 60


def check_address(url: str) -> str:
    """`url`, where it is host:port.

    >>> check_address("127.0.0.1:8001"), check_address("[::1]:8001")
    ('127.0.0.1:8001', '[::1]:8001')

    Raises:
        ValueError: anything else, a scheme or a path included.
    """
    match = _ADDRESS.fullmatch(url)
    if match is None or not 1 <= int(match[1]) <= 65535:
        found = repr(url) if len(url) <= _SHOWN else f"{url[:_SHOWN]!r}..."
        raise ValueError(f"url: {found} found, host:port allowed, port 1 to 65535 and no http://, as 127.0.0.1:8001")
    return url
