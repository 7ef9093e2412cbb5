"""What ads are like, as vectors: by what they say of themselves, and by who met them.

Both are truncated singular value decompositions of a sparse matrix, scaled to rows of length 1: of ads and words,
weighted by tf-idf (latent semantic indexing), and of ads and users. An ad without a word or without an event has zeros.
"""

# Legend: A ads, W words, U users, D floats of a vector, n events.

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from triton_ads.features.words import words

_OVERSAMPLED = 10
_POWER_STEPS = 4


def text_vectors(texts: Sequence[str], width: int) -> NDArray[np.float32]:
    """Vectors float32 [A, width] of the words of texts; a word of one text only tells nothing of another and is left
    out."""
    counts = [Counter(words(text)) for text in texts]
    documents = Counter(word for count in counts for word in count)
    column = {word: i for i, word in enumerate(sorted(w for w, n in documents.items() if n > 1))}
    entries = [
        (row, column[word], (1 + math.log(n)) * math.log(len(texts) / documents[word]))
        for row, count in enumerate(counts)
        for word, n in count.items()
        if word in column
    ]
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True)) if entries else ([], [], [])
    return _decomposed(csr_matrix((values, (rows, columns)), (len(texts), len(column))), width)


def behaviour_vectors(
    user: NDArray[np.integer], ad: NDArray[np.integer], users: int, ads: int, width: int
) -> NDArray[np.float32]:
    """Vectors float32 [A, width] of the users who met each ad.

    Args:
        user, ad: [n] positions, an event each; of the training part only.
    """
    met = csr_matrix((np.ones(len(user)), (ad, user)), (ads, users))
    met.data = np.log1p(met.data)  # an ad that a user met often is not that many times as alike
    # Who meets everything says little of anything.
    activity = np.asarray((met > 0).sum(axis=0)).ravel()
    return _decomposed(met.multiply(1 / np.sqrt(np.maximum(activity, 1))).tocsr(), width)


def joined(*parts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Representations side by side, each of the same weight."""
    return np.concatenate(parts, axis=1)


def _decomposed(matrix: csr_matrix, width: int) -> NDArray[np.float32]:
    rank = min(width, min(matrix.shape) - 1)
    vectors_AD = np.zeros((matrix.shape[0], width), np.float32)
    if rank < 1 or not matrix.nnz:
        return vectors_AD
    u_AD, s_D = _randomised_svd(matrix.astype(np.float64), rank)
    scaled_AD = u_AD * s_D
    # A singular vector's sign is arbitrary: its largest component is made positive.
    largest_D = np.abs(scaled_AD).argmax(axis=0)
    scaled_AD *= np.where(scaled_AD[largest_D, np.arange(rank)] < 0, -1, 1)
    length_A1 = np.linalg.norm(scaled_AD, axis=1, keepdims=True)
    vectors_AD[:, :rank] = scaled_AD / np.maximum(length_A1, 1e-12)
    vectors_AD[np.asarray(matrix.getnnz(axis=1)) == 0] = 0
    return vectors_AD


def _randomised_svd(matrix: csr_matrix, rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Left singular vectors [A, rank] and singular values, largest first (Halko, Martinsson and Tropp, 2011).

    SciPy's own solvers start from random numbers that cannot be seeded; the same ads must give the same tree.
    """
    start = np.random.default_rng(0).normal(size=(matrix.shape[1], min(rank + _OVERSAMPLED, min(matrix.shape))))
    q_AR, _ = np.linalg.qr(matrix @ start)
    for _ in range(_POWER_STEPS):
        q_WR, _ = np.linalg.qr(matrix.T @ q_AR)
        q_AR, _ = np.linalg.qr(matrix @ q_WR)
    u_RR, s_R, _ = np.linalg.svd((matrix.T @ q_AR).T, full_matrices=False)
    return (q_AR @ u_RR)[:, :rank], s_R[:rank]
