"""Which requests of a group can still be answered in time: the others are refused before work is wasted on them.

A server that is asked more than it can has requests waiting, and the longest waiting are the nearest to their deadline.
Answered first come, first served, each would get its answer just too late, and nobody would get one. So of a group
those with the most time left are answered, as many as all are done within the time of the tightest of them:

    time left, ms      90   80   70   30   20        a request takes 20 ms
    done after, ms     20   40   60   80  100        three are answered, two are refused
"""

from collections import defaultdict, deque
from collections.abc import Sequence

#: Runs that the time of a request is the median of: a run that was held up once changes nothing.
RUNS = 9
#: What answers need beside the run itself: to be read, written and sent.
MARGIN = 1.2


class Pace:
    """How long requests take, by group, and who can be answered at that pace."""

    def __init__(self) -> None:
        self._each_us: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=RUNS))

    def ran(self, group: int, requests: int, microseconds: float) -> None:
        """Take note of a run of so many requests."""
        self._each_us[group].append(microseconds / requests)

    def in_time(self, group: int, left_us: Sequence[int]) -> list[bool]:
        """Of requests with so much time left, in the order given: who is answered. One always is, or the pace of a
        server that was held up for long would never be measured again.
        """
        known = sorted(self._each_us[group])
        each_us = MARGIN * known[len(known) // 2] if known else 0.0
        if not left_us or each_us * len(left_us) <= min(left_us):
            return [True] * len(left_us)
        order = sorted(range(len(left_us)), key=lambda i: -left_us[i])
        answered = 1
        while answered < len(order) and each_us * (answered + 1) <= left_us[order[answered]]:
            answered += 1
        chosen = set(order[:answered])
        return [i in chosen for i in range(len(left_us))]
