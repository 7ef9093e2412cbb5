"""One build of a recipe at a time: two would write into the same folders."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class BuildRunningError(RuntimeError):
    """Another process builds the same recipe in the same place."""


@contextmanager
def build_lock(folder: Path) -> Iterator[None]:
    """Hold `folder`/lock; the kernel lets it go when the process ends, however it ends.

    Raises:
        BuildRunningError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise BuildRunningError(f"{folder}: process {file.read() or '?'} builds here; wait for it") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
