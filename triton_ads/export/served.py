"""Who is at work on a model repository: servers, and at most one publisher.

Locks of the kernel: they end with the process that holds them, however it ends, and hold between containers that
share the folder.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PUBLISHING = ".publishing"


class PublishRunningError(RuntimeError):
    """Another process publishes into the same repository."""


class ServedMark:
    """Says that a server serves a repository, between `hold` and `release`."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._file: int | None = None

    def hold(self) -> None:
        if self._file is None:
            # The folder itself: it may be one that only may be read.
            self._file = os.open(self._repository, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_served(repository: Path) -> bool:
    """Whether a server of this machine serves the repository."""
    if not repository.is_dir():
        return False
    file = os.open(repository, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


@contextmanager
def publishing(repository: Path) -> Iterator[None]:
    """Be the only publisher of a repository.

    Raises:
        PublishRunningError: another process is.
    """
    with (repository / _PUBLISHING).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise PublishRunningError(
                f"{repository}: process {file.read() or '?'} is publishing into it; wait for it"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
