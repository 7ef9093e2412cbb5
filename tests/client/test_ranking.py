import doctest

import numpy as np
import pytest

from triton_ads.client import ranking as module
from triton_ads.client import request
from triton_ads.client.ranking import parse_ranking


def outputs(ids, scores):
    n = len(ids)
    return {
        "ranked_ids": np.array([ids], np.int64),
        "scores": np.array([scores], np.float32).reshape(1, n, 2),
        "rank_values": np.array([[score[0] for score in scores]], np.float32).reshape(1, n),
        "positions": np.arange(n, dtype=np.int32)[None],
        "tier": np.array([[b"high"]], np.object_),
        "reason": np.array([[b"worthwhile"]], np.object_),
        "release": np.array([[b"0123456789ab"]], np.object_),
    }


def test_the_answer_of_the_model_is_read_without_its_batch_axis():
    ranking = parse_ranking(outputs([7, 5], [[0.5, 0.25], [0.125, 0.0]]), ("cvr", "dcvr"))
    assert [(ad, scores.tolist()) for ad, scores in ranking] == [(7, [0.5, 0.25]), (5, [0.125, 0.0])]
    assert (len(ranking), ranking.tier, ranking.reason, ranking.release) == (2, "high", "worthwhile", "0123456789ab")
    assert ranking.rank_values.tolist() == [0.5, 0.125]
    assert ranking.label("dcvr").tolist() == [0.25, 0.0]
    with pytest.raises(KeyError, match="label 'ctr' is not known; known: cvr, dcvr"):
        ranking.label("ctr")


def test_an_empty_answer_keeps_the_shape_of_its_scores():
    ranking = parse_ranking(outputs([], []), ())
    assert (len(ranking), list(ranking), ranking.scores.shape) == (0, [], (0, 2))


@pytest.mark.parametrize("file", [module, request])
def test_the_examples_of_the_docstrings(file):
    result = doctest.testmod(file)
    assert result.attempted > 0
    assert result.failed == 0
