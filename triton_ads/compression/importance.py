"""How much each weight matters, and the N:M mask that keeps those that matter most.

    magnitude   |W|
    wanda       |W| * ||X||_2                         Sun et al. 2024
    gradient    |W| * ||X||_2 + |W| * |dE/dW|         the criterion of the ad system that this library follows

||X||_2 of an input channel grows with the tokens read and dE/dW with the scale of the loss, so their sum would hang on
the length of the calibration text. Here each term is divided by its mean over the matrix before they are added, and
`gradient_share` says how much of the sum is the gradient's. A fifth is best of what was tried on SmolLM2-135M at 2:4
(perplexity: 0.05 and 0.2 below Wanda, 0.5 above it).

Legend: N rows (outputs), K columns (inputs).
"""

from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.calibration import Calibration

GRADIENT_SHARE: Final = 0.2


class Criterion(StrEnum):
    MAGNITUDE = "magnitude"
    WANDA = "wanda"
    GRADIENT = "gradient"


def importance(
    weight_NK: NDArray[np.float32],
    calibration: Calibration,
    criterion: Criterion,
    gradient_share: float = GRADIENT_SHARE,
) -> NDArray[np.float32]:
    """Float32 [N, K], 0 or more. Only its order within a row decides a mask.

    Args:
        gradient_share: weight of the gradient term, 0 (Wanda) to 1; the input term has the rest.
    """
    magnitude_NK = np.abs(weight_NK)
    if criterion is Criterion.MAGNITUDE:
        return magnitude_NK
    by_input_NK = magnitude_NK * calibration.norm_K
    if criterion is Criterion.WANDA:
        return by_input_NK
    by_gradient_NK = magnitude_NK * calibration.gradient_NK
    return (1 - gradient_share) * _over_mean(by_input_NK) + gradient_share * _over_mean(by_gradient_NK)


def _over_mean(score_NK: NDArray[np.float32]) -> NDArray[np.float32]:
    mean = score_NK.mean(dtype=np.float64)
    return score_NK / np.float32(mean) if mean > 0 else score_NK
