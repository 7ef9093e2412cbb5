"""The slow lane: a thread that answers what must not hold up the default tier.

While it is busy, requests pile up, and it takes all of them at once when it is free: they batch by themselves, as in
Triton's own scheduler, of which they have left the queue.

Its thread runs at a lower priority. On a machine with cores to spare this changes nothing; on one without, the default
tier gets three times the lane's share of a core, where it would get as much as the lane (docs/serving.md, figures).
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")

#: Steps of Linux's nice value by which the lane stands back; a step is a factor of 1.25 in share.
NICE_STEPS = 5


class Lane(Generic[Item]):
    """Hands items to `work` in the order in which they came, at most `largest` at once.

    Args:
        work: must not raise.
    """

    def __init__(self, work: Callable[[list[Item]], None], largest: int) -> None:
        self._work, self._largest = work, largest
        self._pending: list[Item] = []
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._loop, name="triton-ads-slow-lane", daemon=True)
        self._thread.start()

    def put(self, items: Sequence[Item]) -> None:
        with self._changed:
            self._pending.extend(items)
            self._changed.notify()

    def _loop(self) -> None:
        # On Linux a thread has a priority of its own, and 0 names the calling one.
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + NICE_STEPS)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._stopping)
                items, self._pending = self._pending[: self._largest], self._pending[self._largest :]
            if not items:
                return
            self._work(items)

    def stop(self) -> None:
        """Answer what is pending, then end the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()
