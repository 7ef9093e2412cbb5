"""The router's model: the gain of the high tier on a request, in nats of log-loss per candidate.

    gain(x) = w2 . relu(W1 (x - mean) / std + b1) + b2

Trained by `triton_ads.training.gain`, written as JSON: a few thousand numbers that a person can read, the same bytes
from the same training.
"""

# Legend: M requests, X features, N hidden units.

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
    features: tuple[str, ...]  # names of the X columns, as of JourneyFeatures
    mean: tuple[float, ...]  # [X]
    std: tuple[float, ...]  # [X], positive
    hidden_weight: tuple[tuple[float, ...], ...]  # W1 [X, N]
    hidden_bias: tuple[float, ...]  # [N]
    weight: tuple[float, ...]  # w2 [N]
    bias: float

    @model_validator(mode="after")
    def _shapes_agree(self) -> Self:
        x, n = len(self.features), len(self.hidden_bias)
        found = [len(self.mean), len(self.std), len(self.hidden_weight)]
        if found != [x] * 3 or len(self.weight) != n or {len(row) for row in self.hidden_weight} - {n}:
            raise ValueError(f"{x} features and {n} hidden units do not fit mean, std, hidden_weight {found}, weight")
        if not all(std > 0 for std in self.std):
            raise ValueError("std must be positive")
        return self


class GainModel:
    """Predicts gains; about 20 microseconds for one request."""

    def __init__(self, parameters: GainParameters) -> None:
        self.features = parameters.features
        scale_X1 = 1 / np.array(parameters.std)[:, None]
        weight_XN = np.array(parameters.hidden_weight).reshape(len(self.features), -1) * scale_X1
        # Standardisation is part of the first layer.
        self._weight_XN = weight_XN.astype(np.float32)
        self._bias_N = (np.array(parameters.hidden_bias) - np.array(parameters.mean) @ weight_XN).astype(np.float32)
        self._out_N, self._out = np.array(parameters.weight, np.float32), np.float32(parameters.bias)

    @classmethod
    def load(cls, path: Path, features: list[str]) -> Self:
        """Read a model for requests of these features.

        Raises:
            GainError: no such file, not what it should be, or for other features.
        """
        try:
            parameters = GainParameters.model_validate_json(path.read_bytes())
        except OSError as error:
            raise GainError(f"{path}: {error.strerror or error}") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise GainError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        if list(parameters.features) != features:
            differ = sorted(set(parameters.features) ^ set(features))[:3] or ["their order"]
            raise GainError(
                f"{path}: {len(parameters.features)} features found, {len(features)} needed; different: "
                f"{', '.join(differ)}"
            )
        return cls(parameters)

    def __call__(self, features_MX: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 [M]."""
        hidden_MN = np.maximum(features_MX @ self._weight_XN + self._bias_N, 0)
        return hidden_MN @ self._out_N + self._out
