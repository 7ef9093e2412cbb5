"""What was known before an example: counts and histories, strictly earlier than its time.

"Earlier" is strict: events of the same second are not known yet, the example's own event least of all.
"""

# Legend: n events or queries, E events of a sequence, F fields of an event, T steps of a history.

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.ids import PAD

#: The event field that is the time between the event and the example; it is known for a pair of both only.
GAP = "gap"
#: Upper ends, in seconds, of the buckets of the time since an event; the raw id of a gap is its bucket's number.
GAP_EDGES = (60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 90 * 86400)


def gap_bucket(seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bucket of the time between an event and the example: 0 below a minute, 8 from 90 days on.

    >>> gap_bucket(np.array([0, 59, 60, 86400, 10**9]))
    array([0, 0, 1, 5, 8])
    """
    return np.searchsorted(np.array(GAP_EDGES), seconds, side="right")


def log_scaled(count: NDArray[np.int64]) -> NDArray[np.float32]:
    """A count as a dense feature: log1p(count) / log1p(1000), so that 0 is 0 and 1000 is 1."""
    return (np.log1p(count) / np.log1p(1000)).astype(np.float32)


@dataclass(frozen=True)
class Earlier:
    """For each event of a time-ordered log: where the earlier events of its group lie in the group-wise order.

    `order` sorts the log group by group, oldest first; the events of a group that are strictly earlier than event i
    are `order[first[i] : end[i]]`.
    """

    order: NDArray[np.int64]  # [n]
    first: NDArray[np.int64]  # [n]
    end: NDArray[np.int64]  # [n]

    @property
    def count(self) -> NDArray[np.int64]:
        return self.end - self.first


def earlier(group_n: NDArray[np.int32], time_n: NDArray[np.int64]) -> Earlier:
    """Groups are, for example, users or items; `time_n` never falls."""
    # Stable, and the log is in time order: within a group the events stay oldest first.
    order = np.argsort(group_n, kind="stable")
    group, time = group_n[order], time_n[order]
    new_group = np.ones(len(order), dtype=np.bool_)
    new_group[1:] = group[1:] != group[:-1]
    new_second = new_group.copy()
    new_second[1:] |= time[1:] != time[:-1]
    position = np.arange(len(order))
    first, end = np.empty_like(position), np.empty_like(position)
    first[order] = np.maximum.accumulate(np.where(new_group, position, 0))
    end[order] = np.maximum.accumulate(np.where(new_second, position, 0))
    return Earlier(order, first, end)


@dataclass(frozen=True)
class History:
    """One sequence of all users: its events user by user, oldest first.

    Kept once for all examples; an example is a window [first, end) in it. So 100,000 examples of 50 events cost the
    events, not 5 million copies.
    """

    rows_EF: NDArray[np.int32]  # rows of each field; a gap field holds PAD here, its value depends on the example
    time_E: NDArray[np.int64]
    gap_field: int | None  # which field is the gap
    gap_rows: NDArray[np.int64]  # row of each gap bucket; empty where no field is a gap

    def latest(
        self, first_n: NDArray[np.int32], end_n: NDArray[np.int32], now_n: NDArray[np.int64], length: int
    ) -> NDArray[np.int64]:
        """Rows `int64 [n, length, F]` of the events just before `end`, most recent first, then PAD."""
        event_nT = end_n.astype(np.int64)[:, None] - 1 - np.arange(length)
        valid_nT = event_nT >= first_n[:, None]
        event_nT = np.where(valid_nT, event_nT, 0)
        rows_nTF = np.full((*event_nT.shape, self.rows_EF.shape[1]), PAD, dtype=np.int64)
        if len(self.time_E):
            rows_nTF[:] = self.rows_EF[event_nT]
            if self.gap_field is not None:
                gap_nT = gap_bucket(now_n[:, None] - self.time_E[event_nT])
                rows_nTF[:, :, self.gap_field] = self.gap_rows[gap_nT]
            rows_nTF *= valid_nT[:, :, None]
        return rows_nTF
