"""The state of a user: what travels from the encoder to the scorer as one flat tensor.

    [ release, first 6 hex digits | release, last 6 | cut values of the user, Z floats ]
                                                       offsets and shapes: the manifest's `state`

The two floats at its head name the release that made it. A scorer answers for states of its own release only, so
that a release under load never mixes two.
"""

import numpy as np
from numpy.typing import NDArray

from triton_ads.manifest import release_header
from triton_ads.serving.errors import Cause, RequestError

# B users, Z floats of state without the header

HEADER = 2


class StateFormat:
    """Writes and checks states of one release and tier."""

    def __init__(self, release: str, size: int) -> None:
        self.release = release
        self.size = size
        self._header = np.array(release_header(release), np.float32)

    def empty(self, users: int) -> NDArray[np.float32]:
        """States of `users` users, float32 [B, 2 + Z]: headers written, values not."""
        states_BZ = np.empty((users, HEADER + self.size), np.float32)
        states_BZ[:, :HEADER] = self._header
        return states_BZ

    def values(self, state_Z: NDArray[np.float32]) -> NDArray[np.float32]:
        """The values of one state, without its header.

        Raises:
            RequestError: the state is of another release, or of another length.
        """
        if len(state_Z) != HEADER + self.size:
            raise RequestError(
                Cause.WRONG_LENGTH, f"state: length {len(state_Z)} found, {HEADER + self.size} allowed in this tier"
            )
        if state_Z[0] != self._header[0] or state_Z[1] != self._header[1]:
            raise RequestError(
                Cause.OTHER_RELEASE,
                f"state: of release {_release_of(state_Z)}, this scorer is of release {self.release}",
            )
        return state_Z[HEADER:]


def _release_of(state_Z: NDArray[np.float32]) -> str:
    high, low = float(state_Z[0]), float(state_Z[1])
    in_range = all(0 <= part < 2**24 for part in (high, low))
    return f"{int(high):06x}{int(low):06x}" if in_range else "unknown"
