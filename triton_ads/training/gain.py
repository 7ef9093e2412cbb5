"""Training of the learned router: what the high tier gains on a request, learned from the difference of losses.

The gain of an example is its log-loss under the default tier less that under the high tier, summed over labels; the
gain of a request (examples of one user at one time in one context) is the mean over its examples. A single gain is
almost all noise: its mean over requests that look alike is what is learned, by least squares.

    fitted on       the validation part, which the tiers were not trained on
    reported on     the test part, which nothing was chosen by
"""

# Legend: n examples, R requests, X features, N hidden units, K labels.

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.examples import Examples
from triton_ads.data.split import Part
from triton_ads.routing.gain import GainParameters
from triton_ads.routing.journey import JourneyFeatures

Floats = NDArray[np.float64]

#: Of the squared weights; the one by which held-out requests are told apart best is taken. The features are
#: standardised: a penalty of 1 halves the weight of a feature that goes along with no other.
PENALTIES = tuple(10.0**e for e in range(-3, 4))
#: What was seen in one request of four hundred must not count as twenty standard deviations in the next.
LEAST_STD = 0.05
#: Parts of the requests, user by user, each predicted by a fit on the others.
FOLDS = 5
#: A gain beyond this many nats counts as this many: a few surprises of one tier must not decide for all.
CLIP = 1.0


@dataclass(frozen=True)
class Requests:
    """The requests of a part, user by user: which examples belong together."""

    positions_n: NDArray[np.int64]  # of the part's examples
    request_n: NDArray[np.int64]  # of each of them, in [0, R)
    first_R: NDArray[np.int64]  # position of the first example of each request

    @classmethod
    def of(cls, examples: Examples, part: Part) -> "Requests":
        """Group the examples of a part by user, time and context."""
        positions = examples.part(part)
        a = examples.arrays
        key = np.column_stack([a["user"][positions], a["time"][positions], a["context_rows"][positions]])
        _, first, request = np.unique(key, axis=0, return_index=True, return_inverse=True)
        return cls(positions, request.ravel(), positions[first])

    def mean(self, value_n: Floats) -> Floats:
        """Mean over the examples of each request, [R]."""
        return np.bincount(self.request_n, value_n) / self.size

    @property
    def size(self) -> NDArray[np.int64]:
        """Examples of each request, [R]."""
        return np.bincount(self.request_n)

    def features(self, examples: Examples, features: JourneyFeatures) -> NDArray[np.float32]:
        """What the router would know of each request, float32 [R, X]."""
        parts = []
        for start in range(0, len(self.first_R), 4096):
            inputs: dict[str, Any] = examples.batch(self.first_R[start : start + 4096]).inputs
            parts.append(features(inputs["user_ids"], inputs.get("user_dense"), inputs.get("sequence_ids")))
        return np.concatenate(parts)


def losses(label_nK: NDArray[np.float32], logit_nK: NDArray[np.floating]) -> Floats:
    """Log-loss of each example, summed over labels, in nats [n]."""
    logit_nK = logit_nK.astype(np.float64)
    return (np.logaddexp(0, logit_nK) - label_nK * logit_nK).sum(axis=1)


def fit_gain(
    names: list[str], features_RX: NDArray[np.float32], gain_R: Floats, examples_R: NDArray[np.int64]
) -> tuple[GainParameters, float]:
    """Fit the router's model by ridge regression; also the penalty that cross-validation chose.

    Args:
        names: of the X features.
        features_RX, gain_R: of requests in the order of their users.
        examples_R: examples of each request; a request counts by them, since its gain is their mean.
    """
    mean_X, std_X = features_RX.mean(axis=0, dtype=np.float64), features_RX.std(axis=0, dtype=np.float64)
    std_X = np.maximum(std_X, LEAST_STD)
    x_RX, y_R = (features_RX - mean_X) / std_X, np.clip(gain_R, -CLIP, CLIP)
    weight_R = examples_R / examples_R.mean()
    held_PR = _held_out(x_RX, y_R, weight_R)
    best = int(np.argmax([_correlation(held_R, y_R, weight_R) for held_R in held_PR]))
    # How far from the mean the predictions should go is a question of its own, put to the same held-out predictions.
    w_X = max(0.0, _slope(held_PR[best], y_R, weight_R)) * _ridges(x_RX, y_R, weight_R)[best]
    parameters = GainParameters(
        bias=float(weight_R @ (y_R - x_RX @ w_X) / weight_R.sum()),
        features=tuple(names),
        mean=tuple(mean_X.tolist()),
        std=tuple(std_X.tolist()),
        weight=tuple(w_X.tolist()),
    )
    return parameters, PENALTIES[best]


def _held_out(x_RX: Floats, y_R: Floats, weight_R: Floats) -> list[Floats]:
    """For each of PENALTIES the prediction of every request by a fit on the other folds, [R]."""
    fold_R = np.arange(len(y_R)) * FOLDS // len(y_R)
    held_PR = [np.zeros(len(y_R)) for _ in PENALTIES]
    for fold in range(FOLDS):
        rest, held = fold_R != fold, fold_R == fold
        middle_X = weight_R[rest] @ x_RX[rest] / weight_R[rest].sum()
        for held_R, w_X in zip(held_PR, _ridges(x_RX[rest], y_R[rest], weight_R[rest]), strict=True):
            held_R[held] = (x_RX[held] - middle_X) @ w_X
    return held_PR


def _correlation(predicted_R: Floats, y_R: Floats, weight_R: Floats) -> float:
    """Weighted, up to a factor that is the same for all predictions of y: tells requests apart, whatever the scale."""
    middle = weight_R @ predicted_R / weight_R.sum()
    return _slope(predicted_R, y_R, weight_R) * float(np.sqrt(weight_R @ (predicted_R - middle) ** 2))


def _slope(predicted_R: Floats, y_R: Floats, weight_R: Floats) -> float:
    """Of the weighted regression of y on the prediction; 0 where the prediction is constant."""
    centred_R = predicted_R - weight_R @ predicted_R / weight_R.sum()
    spread = float(weight_R @ centred_R**2)
    return float(weight_R @ (centred_R * y_R)) / spread if spread > 0 else 0.0


def _ridges(x_RX: Floats, y_R: Floats, weight_R: Floats) -> list[Floats]:
    """Weights [X] that minimise `mean weight (w x + b - y)^2 + penalty |w|^2`, b free, for each of PENALTIES."""
    total = weight_R.sum()
    centred_RX = x_RX - weight_R @ x_RX / total
    value_X, vector_XX = np.linalg.eigh((centred_RX * weight_R[:, None]).T @ centred_RX / total)
    turned_X = vector_XX.T @ (centred_RX.T @ (weight_R * (y_R - weight_R @ y_R / total))) / total
    return [vector_XX @ (turned_X / (np.maximum(value_X, 0) + penalty)) for penalty in PENALTIES]
