"""The ranking rule over a request's arrays: worked numbers, and what has no value."""

import numpy as np
import pytest

from tests.support.tiny_release import tiny_recipe
from triton_ads.recipe import RecipeError, parse_recipe
from triton_ads.serving.ranking import LAST, RankRule, best_first

# Columns of the tiny recipe: labels cvr and dcvr, dense `price`, value `payout`.
SCORES_NK = np.array([[0.5, 0.125], [0.25, 0.25], [0.0, 0.5], [0.75, 0.0625]], np.float32)
DENSE_ND = np.array([[1.0], [2.0], [0.0], [-1.0]], np.float32)
VALUES_NV = np.array([[1.0], [4.0], [8.0], [np.nan]], np.float32)


def ranked(rank_by):
    values = RankRule(tiny_recipe(rank_by)).values(SCORES_NK, DENSE_ND, VALUES_NV)
    assert values.dtype == np.float32
    return values.tolist(), best_first(values).tolist()


@pytest.mark.parametrize(
    ("rank_by", "values", "order"),
    [
        ("cvr", [0.5, 0.25, 0.0, 0.75], [3, 0, 1, 2]),
        ("payout * cvr", [0.5, 1.0, 0.0, LAST], [1, 0, 2, 3]),
        ("payout * (cvr + 0.5 * dcvr)", [0.5625, 1.5, 2.0, LAST], [2, 1, 0, 3]),
        ("payout * cvr - price", [-0.5, -1.0, 0.0, LAST], [2, 0, 1, 3]),
        ("dcvr / price", [0.125, 0.125, LAST, -0.0625], [0, 1, 3, 2]),  # a tie, and + infinity
        (
            "log(cvr)",
            [float(np.float32(np.log(x))) for x in (0.5, 0.25)] + [LAST, np.float32(np.log(0.75))],
            [3, 0, 1, 2],
        ),
        ("1e300 * cvr * 1e300", [LAST, LAST, 0.0, LAST], [2, 0, 1, 3]),  # infinite, and 0
        ("1e40 * cvr", [LAST, LAST, 0.0, LAST], [2, 0, 1, 3]),  # finite, but no float32
        ("payout", [1.0, 4.0, 8.0, LAST], [2, 1, 0, 3]),
        ("max(payout, 0) * cvr", [0.5, 1.0, 0.0, LAST], [1, 0, 2, 3]),  # not known stays not known
    ],
)
def test_worked_rankings(rank_by, values, order):
    assert ranked(rank_by) == (values, order)


def test_a_bare_label_is_the_score_bit_for_bit():
    scores_NK = np.random.default_rng(0).random((100, 2), np.float32)
    values = RankRule(tiny_recipe("dcvr")).values(
        scores_NK, np.zeros((100, 1), np.float32), np.zeros((100, 1), np.float32)
    )
    np.testing.assert_array_equal(values, scores_NK[:, 1])


def test_ties_keep_the_order_of_the_request_and_nothing_is_ordered_by_nan():
    rule = RankRule(tiny_recipe("cvr / payout"))
    scores_NK = np.ones((5, 2), np.float32)
    payout_N1 = np.array([[0.0], [2.0], [np.nan], [2.0], [1.0]], np.float32)
    values = rule.values(scores_NK, np.zeros((5, 1), np.float32), payout_N1)
    assert values.tolist() == [LAST, 0.5, LAST, 0.5, 1.0]
    assert best_first(values).tolist() == [4, 1, 3, 0, 2]


def test_no_candidates():
    empty = np.empty((0, 1), np.float32)
    assert (
        best_first(RankRule(tiny_recipe("payout * cvr")).values(np.empty((0, 2), np.float32), empty, empty)).size == 0
    )


def named_alike(rank_by):
    document = tiny_recipe().model_dump(mode="json")
    document["labels"] = ["cvr", "price"]
    return parse_recipe({**document, "rank_by": rank_by})


def test_a_bare_label_goes_before_a_column_of_the_same_name():
    rule = RankRule(named_alike("price"))
    assert rule.values(SCORES_NK, DENSE_ND, VALUES_NV).tolist() == SCORES_NK[:, 1].tolist()
    assert RankRule(named_alike("payout * cvr")).values(SCORES_NK, DENSE_ND, VALUES_NV)[0] == 0.5


def test_an_expression_over_a_name_of_both_is_refused():
    with pytest.raises(RecipeError, match="rank_by: price: a label and an item column have this name; rename one"):
        named_alike("2 * price")
