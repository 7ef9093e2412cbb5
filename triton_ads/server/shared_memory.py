"""Whose are the files in /dev/shm? Those of servers that nobody could clean up after are swept at the next start.

A guardian removes its server's files, unless launcher and guardian were both killed at once. Both hold a lock on a file
beside them, which the kernel ends with the last of the two.
"""

import fcntl
import os
from pathlib import Path

from triton_ads.server.processes import SHARED_MEMORY, remove_regions

_START, _LOCK = "triton_ads_", ".lock"


class RegionLock:
    """Says that the files of /dev/shm that begin with `prefix` are somebody's."""

    def __init__(self, prefix: str) -> None:
        self._path = _lock_of(prefix)
        self._file: int | None = None

    @property
    def files(self) -> tuple[int, ...]:
        """For the process that shares it."""
        return () if self._file is None else (self._file,)

    def hold(self) -> None:
        if self._file is None:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        if self._file is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None


def remove_lock(prefix: str) -> None:
    """For the one that is left of the two that share it, before it ends."""
    _lock_of(prefix).unlink(missing_ok=True)


def sweep_regions() -> list[str]:
    """Remove what servers whose launcher and guardian are dead have left; returns the names of the files."""
    removed = []
    for path in SHARED_MEMORY.glob(f"{_START}*{_LOCK}"):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # just gone, or another user's
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            removed += remove_regions(f"{path.name.removesuffix(_LOCK)}_")
            path.unlink(missing_ok=True)
        except BlockingIOError:
            continue
        finally:
            os.close(file)
    return removed


def _lock_of(prefix: str) -> Path:
    return SHARED_MEMORY / f"{prefix.removesuffix('_')}{_LOCK}"
