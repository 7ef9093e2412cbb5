"""Ads that must not be generated any more: a file beside the releases, obeyed from the next batch on.

    releases/RECIPE.blocked     raw ids, one a line; other releases of the recipe obey it as well

It belongs to no release: what is blocked today must stay blocked when the next release is published.
"""

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from triton_ads.serving.release import Release
from triton_ads.serving.target.step import Ints
from triton_ads.trie import Blocked, Tree

logger = logging.getLogger(__name__)


def blocked_file(release: Path, recipe: str) -> Path:
    """The file of a recipe, beside one of its releases."""
    return release.resolve().parent / f"{recipe}.blocked"


def write_blocked(path: Path, ads: Iterable[int]) -> None:
    """Block these ads and no others. A server never reads half a file: it is made under another name and renamed."""
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    staging.write_text("".join(f"{ad}\n" for ad in sorted(set(ads))))
    staging.rename(path)


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """While a file is read and written anew: who changes it at the same time waits, so that no change is lost."""
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read_blocked(path: Path) -> Ints:
    """The ads of the file, increasing; none where there is no file.

    Raises:
        ValueError: a line is no integer that fits int64.
    """
    try:
        return np.unique(np.array([int(line) for line in path.read_text().split()], np.int64))
    except FileNotFoundError:
        return np.zeros(0, np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path}: one raw id a line is needed: {error}") from None


class BlockedAds:
    """What the file says now, as a mask over the tree. A file that cannot be read changes nothing, and is logged.

    Raises:
        ValueError, OSError: the file cannot be read when the server starts.
    """

    def __init__(self, release: Release, tree: Tree) -> None:
        self._path = blocked_file(release.folder, release.recipe.name)
        self._seen = self._failed = self._state()
        self._blocked = Blocked(tree, read_blocked(self._path).tolist())

    def now(self) -> Blocked:
        """The mask; where the file has changed it is read again, and what has changed in it is marked."""
        state = self._state()
        if state != self._seen:
            try:
                self._blocked.replace(read_blocked(self._path).tolist())
                self._seen = state
            except ValueError:
                self._seen = state
                logger.exception("blocked ads stay as they were")
            except OSError:  # may pass, such as too many open files: tried again with the next batch, logged once
                if state != self._failed:
                    self._failed = state
                    logger.exception("blocked ads stay as they were")
        return self._blocked

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
