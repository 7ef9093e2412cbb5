"""Measures and baselines, worked by hand."""

import doctest

import numpy as np
import pytest

from triton_ads.targeting import recall
from triton_ads.targeting.recall import ItemNeighbours, Popularity, Question, recall_and_ndcg


def test_examples() -> None:
    found = doctest.testmod(recall)
    assert found.attempted and not found.failed


def test_measures() -> None:
    one, two = Question((), frozenset(), 4), Question((), frozenset(), 9)
    assert recall_and_ndcg([[4, 1], [1, 2]], [one, two], 2) == (0.5, 0.5)
    assert recall_and_ndcg([[1, 4], [9, 2]], [one, two], 1) == (0.5, 0.5)
    assert recall_and_ndcg([[], []], [one, two], 5) == (0.0, 0.0)
    with pytest.raises(ValueError, match="no question"):
        recall_and_ndcg([], [], 5)


def test_popularity() -> None:
    answers = Popularity(np.array([2, 2, 2, 0, 0, 3]), 5)
    assert answers.answer(Question((), frozenset(), 0), 3) == [2, 0, 3]
    assert answers.answer(Question((), frozenset({2, 3}), 0), 9) == [0, 1, 4]


def test_item_neighbours() -> None:
    """Users 0, 1, 2 met ads 0 and 1, user 3 ads 1 and 2, user 4 ad 3: cosine of 0 and 1 is 3 / sqrt(3 x 4)."""
    user = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4])
    ad = np.array([0, 1, 0, 1, 0, 1, 1, 2, 3])
    answers = ItemNeighbours(user, ad, 5, 4)
    assert answers._like_AA[0, 1] == pytest.approx(3 / np.sqrt(12))
    assert answers._like_AA[1, 2] == pytest.approx(1 / np.sqrt(4))
    assert answers.answer(Question((1,), frozenset({1}), 0), 2) == [0, 2]
    assert answers.answer(Question((0,), frozenset({0}), 0), 2) == [1, 2]
    assert answers.answer(Question((), frozenset(), 0), 2) == [1, 0]  # nothing known: the most popular
