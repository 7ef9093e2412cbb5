"""Journeys of users, from a log: what a generator learns from, and the questions on which it is judged.

A journey is the events of one of the log's sequences (the conversions, for example), oldest first. At an event, nothing
of its own second or later is known.
"""

# Legend: n events.

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.log import Log
from triton_ads.data.past import earlier
from triton_ads.data.split import Part, TimeSplit
from triton_ads.targeting.recall import Question


@dataclass(frozen=True)
class Journeys:
    """The journeys of a log: positions of ads, and of the events they come from."""

    log: Log
    split: TimeSplit
    member_n: NDArray[np.bool_]  # which events belong to a journey

    @classmethod
    def of(cls, log: Log, split: TimeSplit, sequence: str) -> "Journeys":
        """
        Raises:
            ValueError: the log has no such sequence.
        """
        if sequence not in log.sequences:
            raise ValueError(f"sequence {sequence!r} is not known; allowed: {', '.join(log.sequences)}")
        return cls(log, split, log.sequences[sequence])

    def training(self) -> list[list[int]]:
        """The journey of every user in the training part, oldest first; users without one are left out."""
        end = self.split.train_end
        event = np.flatnonzero(self.member_n[:end])
        event = event[np.argsort(self.log.user[event], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.log.user[event])) + 1
        return [ads.tolist() for ads in np.split(self.log.item[event], cuts) if len(ads)]

    def whole(self, events: int) -> list[list[int]]:
        """The last `events` of every user's journey when the log has ended, oldest first: for the server's store."""
        event = np.flatnonzero(self.member_n)
        event = event[np.argsort(self.log.user[event], kind="stable")]
        ends = np.cumsum(np.bincount(self.log.user[event], minlength=len(self.log.user_ids)))
        starts = np.concatenate([[0], ends[:-1]])
        item = self.log.item[event]
        return [
            item[max(start, end - events) : end].tolist()
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def questions(self, part: Part, most: int) -> list[Question]:
        """Members of a part, at most `most`, spread evenly over it: what was known before each, and which ad it was."""
        first, end = self.split.range(part)
        asked = first + np.flatnonzero(self.member_n[first:end])
        asked = asked[np.unique(np.linspace(0, len(asked) - 1, min(most, len(asked))).astype(np.int64))]
        past = earlier(self.log.user, self.log.time)
        questions = []
        for event in asked.tolist():
            before = past.order[past.first[event] : past.end[event]]
            ads = self.log.item[before]
            answer = int(self.log.item[event])
            seen = frozenset(ads.tolist())
            # An ad met again is no discovery, and what was seen is not answered.
            if answer not in seen:
                questions.append(Question(tuple(ads[self.member_n[before]].tolist()), seen, answer))
        return questions
