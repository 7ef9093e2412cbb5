"""Fitting the map of one label: a line or a growing curve of the logit. See triton_ads/models/calibration.py.

    platt      Platt 1999, "Probabilistic Outputs for Support Vector Machines": logistic regression on the logit
    isotonic   Zadrozny and Elkan 2002, "Transforming Classifier Scores into Accurate Multiclass Probability
               Estimates": a growing curve, by pooling adjacent violators; here over bins of equal size, through the
               bins' middles rather than in steps, so that two ads are never tied that the model told apart

Both end with the shift at which the mean prediction is the share of positives.
"""

# Legend: n examples, b bins or blocks.

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Steepness that a map may have: it keeps the order, and does not blow differences of float32 up.
LEAST_SLOPE, GREATEST_SLOPE = 0.1, 10.0
MOST_KNOTS = 16
#: Examples in a bin: fewer make a rate too uncertain to bend a curve by.
BIN = 100

Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """slope x + shift + sum of bends * relu(x - knots)."""

    slope: float
    shift: float
    knots: tuple[float, ...] = ()
    bends: tuple[float, ...] = ()


def platt(logit_n: Floats, label_n: Floats) -> Curve:
    """The most likely line, by Newton's method.

    Args:
        logit_n: float64.
        label_n: 0 or 1, both among them.
    """
    slope, shift = 1.0, fit_shift(logit_n, label_n)
    for _ in range(100):
        step = _newton_step(logit_n, label_n, slope, shift)
        # Halved until it does not overshoot: Newton's steps diverge where the curve is nearly flat.
        before = _loss(slope * logit_n + shift, label_n)
        while _loss((slope + step[0]) * logit_n + shift + step[1], label_n) > before and np.abs(step).max() > 1e-12:
            step /= 2
        slope, shift = slope + float(step[0]), shift + float(step[1])
        if np.abs(step).max() < 1e-10 or abs(slope) > 10 * GREATEST_SLOPE:
            break
    slope = min(max(slope, LEAST_SLOPE), GREATEST_SLOPE)
    return Curve(slope, fit_shift(slope * logit_n, label_n))


def _newton_step(logit_n: Floats, label_n: Floats, slope: float, shift: float) -> Floats:
    predicted_n = sigmoid(slope * logit_n + shift)
    error_n, weight_n = predicted_n - label_n, predicted_n * (1 - predicted_n)
    gradient = np.array([error_n @ logit_n, error_n.sum()])
    cross = weight_n @ logit_n
    hessian = np.array([[weight_n @ logit_n**2, cross], [cross, weight_n.sum()]]) + 1e-9 * np.eye(2)
    return -np.linalg.solve(hessian, gradient)


def isotonic(logit_n: Floats, label_n: Floats) -> Curve:
    """A growing curve of at most MOST_KNOTS knots; arguments as of `platt`. Beyond its ends it has slope 1."""
    x_b, rate_b, weight_b = _bins(logit_n, label_n)
    x_b, rate_b = pool_adjacent_violators(x_b, rate_b, weight_b)
    y_b = np.log(rate_b) - np.log1p(-rate_b)
    slopes = np.clip(np.diff(y_b) / np.diff(x_b), LEAST_SLOPE, GREATEST_SLOPE)
    bends = np.diff([1.0, *slopes, 1.0])
    curve_n = logit_n + np.maximum(logit_n[:, None] - x_b, 0) @ bends
    return Curve(1.0, fit_shift(curve_n, label_n), tuple(x_b.tolist()), tuple(bends.tolist()))


def _bins(logit_n: Floats, label_n: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean logit, share of positives and weight of bins of nearly equal size; equal logits are in one bin.

    Each bin counts one more example, of the mean share: a rate of 0 or 1 has no logit.
    """
    order = np.argsort(logit_n, kind="stable")
    x_n, y_n = logit_n[order], label_n[order]
    bins = max(1, min(MOST_KNOTS, len(x_n) // BIN))
    # A cut within equal logits moves to the first of them.
    cuts = np.unique(np.searchsorted(x_n, x_n[np.arange(bins) * len(x_n) // bins], side="left"))
    count_b = np.diff([*cuts, len(x_n)])
    rate_b = (np.add.reduceat(y_n, cuts) + y_n.mean()) / (count_b + 1)
    return np.add.reduceat(x_n, cuts) / count_b, rate_b, count_b + 1.0


def pool_adjacent_violators(x_b: Floats, y_b: Floats, weight_b: Floats) -> tuple[Floats, Floats]:
    """Neighbours whose `y_b` does not grow become one, until it grows: weighted means of x and y of what is left.

    The y of every block is the growing sequence of least weighted squares (Barlow et al. 1972).
    """
    blocks: list[tuple[float, float, float]] = []  # x, y, weight
    for block in zip(x_b.tolist(), y_b.tolist(), weight_b.tolist(), strict=True):
        while blocks and blocks[-1][1] >= block[1]:
            x, y, weight = blocks.pop()
            total = weight + block[2]
            block = ((weight * x + block[2] * block[0]) / total, (weight * y + block[2] * block[1]) / total, total)
        blocks.append(block)
    x, y, _ = np.array(blocks).T
    return x, y


def fit_shift(logit_n: Floats, label_n: Floats) -> float:
    """The shift of all logits at which the mean prediction is the share of positives: by bisection.

    Args:
        label_n: 0 or 1, both among them: without, no finite shift does.
    """
    rate = float(label_n.mean())
    # At these every prediction lies on one side of the rate.
    middle = np.log(rate) - np.log1p(-rate)
    low, high = float(middle - logit_n.max()), float(middle - logit_n.min())
    for _ in range(100):
        shift = (low + high) / 2
        low, high = (shift, high) if sigmoid(logit_n + shift).mean() < rate else (low, shift)
    return (low + high) / 2


def sigmoid(logit_n: Floats) -> Floats:
    return np.exp(-np.logaddexp(0, -logit_n))


def _loss(logit_n: Floats, label_n: Floats) -> float:
    return float(np.mean(np.logaddexp(0, logit_n) - label_n * logit_n))
