"""How good predicted probabilities are: ranking (AUC), likelihood (log-loss) and honesty (calibration, ECE)."""

# Legend: n examples.

import numpy as np
from numpy.typing import NDArray

BINS = 10  # of the expected calibration error


def auc(label_n: NDArray, score_n: NDArray) -> float:
    """Area under the ROC curve: the chance that a positive example scores above a negative one, ties counting half.

    By the rank sum (Mann-Whitney): `(sum of the positives' mean ranks - p (p + 1) / 2) / (p q)`.

    Raises:
        ValueError: all labels are the same; no such chance exists.
    """
    positive = int(np.count_nonzero(label_n))
    negative = len(label_n) - positive
    if not positive or not negative:
        raise ValueError(f"auc: {positive} positive and {negative} negative examples found; both kinds are needed")
    _, value_n, count = np.unique(score_n, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(count)
    rank_n = (last_rank - (count - 1) / 2)[value_n]
    return float((rank_n[label_n > 0].sum() - positive * (positive + 1) / 2) / (positive * negative))


def log_loss(label_n: NDArray, logit_n: NDArray) -> float:
    """Mean negative log-likelihood in nats, from logits: `log(1 + e^x) - y x`, exact for large |x|."""
    logit_n = logit_n.astype(np.float64)
    return float(np.mean(np.logaddexp(0, logit_n) - label_n * logit_n))


def calibration(label_n: NDArray, probability_n: NDArray) -> float:
    """Mean predicted over mean actual: 1 is honest, 1.1 promises 10 % too much. Infinite without a positive."""
    actual = float(np.mean(label_n, dtype=np.float64))
    return float(np.mean(probability_n, dtype=np.float64)) / actual if actual else float("inf")


def expected_calibration_error(label_n: NDArray, probability_n: NDArray, bins: int = BINS) -> float:
    """Mean |predicted - actual| over equally wide bins of the prediction, weighted by their examples.

    Guo et al. 2017, "On Calibration of Modern Neural Networks", Eq. 3. A bin holds [k / bins, (k + 1) / bins), the
    last one 1 as well.
    """
    bin_n = np.minimum((probability_n * bins).astype(np.int64), bins - 1)
    gap = np.bincount(bin_n, weights=probability_n.astype(np.float64) - label_n, minlength=bins)
    return float(np.abs(gap).sum() / len(label_n))


def quality(labels: tuple[str, ...], label_nK: NDArray, logit_nK: NDArray) -> dict[str, dict[str, float]]:
    """All measures of every label: label -> measure -> value; `base_rate` is the share of positives."""
    found = {}
    for k, name in enumerate(labels):
        label_n, logit_n = label_nK[:, k], logit_nK[:, k].astype(np.float64)
        probability_n = np.exp(-np.logaddexp(0, -logit_n))
        found[name] = {
            "auc": auc(label_n, logit_n),
            "log_loss": log_loss(label_n, logit_n),
            "calibration": calibration(label_n, probability_n),
            "ece": expected_calibration_error(label_n, probability_n),
            "base_rate": float(np.mean(label_n, dtype=np.float64)),
        }
    return found
