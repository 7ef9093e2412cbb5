"""What the generator tells the verifier of a request; the tensor `plan` of docs/wire.md."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.serving.checks import Tensors
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.release import Release


@dataclass(frozen=True)
class Plan:
    top: int  # ads to answer
    deadline_us: int
    release: int

    def tensor(self) -> NDArray[np.int64]:
        return np.array([[self.top, self.deadline_us, self.release]], np.int64)

    @classmethod
    def read(cls, tensors: Tensors, release: Release) -> "Plan":
        """The plan of a request.

        Raises:
            RequestError: it is of a generator of another release.
        """
        top, deadline_us, number = tensors["plan"][0].tolist()
        if number != release.number:
            raise RequestError(
                Cause.OTHER_RELEASE,
                f"plan: of release {number % 2**48:012x}, this model is of release {release.manifest.release}",
            )
        return cls(top, deadline_us, number)
