"""The router's model: the gain of the high tier on a request, in nats of log-loss per candidate.

    gain(x) = w . (x - mean) / std + b

Linear, because a single gain is nearly all noise and little more can be learned from it; what interacts is among the
features. Trained by `triton_ads.training.gain`, written as JSON that a person can read: the weight of a feature is
what one standard deviation of it adds to the gain.
"""

# Legend: M requests, X features.

from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

#: Its place in a release.
GAIN_FILE = "router/gain.json"


class GainError(ValueError):
    """A router's model that cannot be used; the message names the file, what was found and what is needed."""


class GainParameters(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Literal[1] = 1
    bias: float
    features: tuple[str, ...]  # names of the X columns, as of JourneyFeatures
    mean: tuple[float, ...]  # [X]
    std: tuple[float, ...]  # [X], positive
    weight: tuple[float, ...]  # [X]

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        found = {name: len(getattr(self, name)) for name in ("features", "mean", "std", "weight")}
        if len(set(found.values())) != 1:
            raise ValueError(f"lengths must agree, found {found}")
        if not all(std > 0 for std in self.std):
            raise ValueError("std must be positive")
        return self


def read_gain(path: Path) -> GainParameters:
    """
    Raises:
        GainError: no such file, or not what it should be.
    """
    try:
        return GainParameters.model_validate_json(path.read_bytes())
    except OSError as error:
        raise GainError(f"{path}: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise GainError(f"{path}: {place}{': ' if place else ''}{first['msg']}") from None


class GainModel:
    """Predicts gains: one product a request."""

    def __init__(self, parameters: GainParameters) -> None:
        self.features = parameters.features
        # Standardisation is part of the weights.
        weight_X = np.array(parameters.weight) / np.array(parameters.std)
        self._weight_X = weight_X.astype(np.float32)
        self._bias = np.float32(parameters.bias - np.array(parameters.mean) @ weight_X)

    @classmethod
    def load(cls, path: Path, features: list[str]) -> Self:
        """Read a model for requests of these features.

        Raises:
            GainError: no such file, not what it should be, or for other features.
        """
        parameters = read_gain(path)
        if list(parameters.features) != features:
            differ = sorted(set(parameters.features) ^ set(features))[:3] or ["their order"]
            raise GainError(
                f"{path}: {len(parameters.features)} features found, {len(features)} needed; different: "
                f"{', '.join(differ)}"
            )
        return cls(parameters)

    def __call__(self, features_MX: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 [M]."""
        return features_MX @ self._weight_X + self._bias
