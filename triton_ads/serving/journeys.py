"""What is known of users for targeting: the journey that a prompt is made of, and every ad that a user has met.

target/users/  ids int64 [n] increasing   journeys int64 [n, E], oldest first, MISSING behind the last event
               met int64 [m], user after user   met_end int64 [n], where each user's end
"""

# Legend: n known users, E events of a journey, m ads met by all users.

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.ids import MISSING
from triton_ads.serving.store import StoreError, load_array, load_ids


class JourneyStore:
    """The known users.

    Raises:
        StoreError: an array is missing or does not fit the others.
    """

    def __init__(self, folder: Path, events: int) -> None:
        self._ids = load_ids(folder / "ids.npy")
        n = len(self._ids)
        self._journey_nE = load_array(folder / "journeys.npy", np.int64, n, events)
        self._met: NDArray[np.int64] = load_array(folder / "met.npy", np.int64, None)
        self._met_end = load_array(folder / "met_end.npy", np.int64, n)
        bounds = np.concatenate([[0], self._met_end, [len(self._met)]])
        if (np.diff(bounds) < 0).any() or bounds[-2] != bounds[-1]:
            raise StoreError(f"{folder / 'met_end.npy'}: must grow from 0 to {len(self._met)}")

    def find(self, user_id: int) -> int | None:
        """The position of a user; None when it is unknown."""
        position = int(self._ids.searchsorted(user_id))
        return position if position < len(self._ids) and self._ids[position] == user_id else None

    def journey(self, position: int) -> NDArray[np.int64]:
        """Ads of the journey, oldest first."""
        row_E: NDArray[np.int64] = self._journey_nE[position]
        return row_E[row_E != MISSING]

    def met(self, position: int) -> NDArray[np.int64]:
        """All ads that the user has met."""
        begin = int(self._met_end[position - 1]) if position else 0
        return self._met[begin : int(self._met_end[position])]
