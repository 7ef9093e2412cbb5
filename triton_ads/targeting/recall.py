"""How good a list of ads is: recall and NDCG of the ad that the user met next, and two baselines to compare with."""

# Legend: n questions, k ads of an answer, A ads, U users.

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """A moment of a user: what was met before, and which ad was met with success next."""

    journey: tuple[int, ...]  # positions of ads, oldest first, strictly earlier than the moment
    seen: frozenset[int]  # all ads met before, with success or without: they are not answered
    answer: int


def recall_and_ndcg(answers: Sequence[Sequence[int]], questions: Sequence[Question], at: int) -> tuple[float, float]:
    """Means over questions of one right ad each: is it among the first `at`, and 1 / log2(1 + its rank).

    >>> one = Question((), frozenset(), 7)
    >>> recall_and_ndcg([[3, 7, 5], [1, 2, 3]], [one, one], 3)
    (0.5, 0.31546487678572877)
    """
    ranks = [
        list(answer[:at]).index(q.answer) + 1 if q.answer in answer[:at] else 0
        for answer, q in _pairs(answers, questions)
    ]
    gains = [1 / np.log2(1 + rank) if rank else 0.0 for rank in ranks]
    return float(np.mean([rank > 0 for rank in ranks])), float(np.mean(gains))


def _pairs(answers: Sequence[Sequence[int]], questions: Sequence[Question]) -> list[tuple[Sequence[int], Question]]:
    if not questions:
        raise ValueError("no question, nothing to measure")
    return list(zip(answers, questions, strict=True))


class Popularity:
    """The ads that were met most often in training."""

    def __init__(self, ad: NDArray[np.integer], ads: int) -> None:
        self._order_A = np.argsort(-np.bincount(ad, minlength=ads), kind="stable")

    def answer(self, question: Question, count: int) -> list[int]:
        return [ad for ad in self._order_A.tolist() if ad not in question.seen][:count]


class ItemNeighbours:
    """Item-kNN: ads that were met by the same users as those of the journey, by cosine, summed over the journey.

    Args:
        user, ad: [n] positions of training events.
        neighbours: of each ad, the others that count.
    """

    def __init__(
        self, user: NDArray[np.integer], ad: NDArray[np.integer], users: int, ads: int, neighbours: int = 100
    ) -> None:
        met = csr_matrix((np.ones(len(user)), (ad, user)), (ads, users))
        met.data[:] = 1  # duplicates were summed: met or not
        norm = np.sqrt(np.asarray(met.sum(axis=1)).ravel())
        scaled = met.multiply(1 / np.maximum(norm, 1)[:, None]).tocsr()
        like = (scaled @ scaled.T).toarray()
        np.fill_diagonal(like, 0)
        least = np.partition(like, -min(neighbours, ads), axis=1)[:, -min(neighbours, ads)]
        self._like_AA = np.where(like >= least[:, None], like, 0)
        self._popularity_A = np.bincount(ad, minlength=ads) / max(1, len(ad))

    def answer(self, question: Question, count: int) -> list[int]:
        # Popularity decides where neighbours say nothing: an empty journey, a tie.
        score_A = self._like_AA[list(question.journey)].sum(axis=0) + 1e-6 * self._popularity_A
        order = np.argsort(-score_A, kind="stable")
        return [ad for ad in order.tolist() if ad not in question.seen][:count]
