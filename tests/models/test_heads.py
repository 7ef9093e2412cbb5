"""Which heads a row takes, by labels and by scenarios."""

from typing import Any

import pytest
import torch

from tests.models.support import BY_SCENARIOS, ROWS
from tests.support.recipes import tiny_recipe
from triton_ads.features.ids import hashed_rows, raw_id
from triton_ads.models.heads import HeadSelection, head_count
from triton_ads.recipe import Recipe

#: Heads of 3 scenarios x 2 labels: head 21 is scenario 2's label 1.
HEADS = torch.tensor([[0.0, 1.0, 10.0, 11.0, 20.0, 21.0]])


def by_scenarios(**changes: Any) -> Recipe:
    return tiny_recipe(**{"labels": ["cvr", "dcvr"], "heads": BY_SCENARIOS, **changes})


def test_heads_are_the_labels() -> None:
    recipe = tiny_recipe(labels=["cvr", "dcvr"])
    assert head_count(recipe) == 2
    heads = torch.randn(4, 2)
    assert HeadSelection(recipe, ROWS, None)(heads, torch.tensor([0, 1, 2, 3])) is heads


def test_a_row_takes_its_scenarios_heads() -> None:
    """heads.scenarios are 3, 1, 2 and the vocabulary holds just them: rows 2, 3, 4 are the scenarios 1, 2, 3."""
    recipe = by_scenarios()
    assert head_count(recipe) == 6
    selection = HeadSelection(recipe, ROWS, None)
    logits = selection(HEADS.expand(3, 6), torch.tensor([2, 3, 4]))
    assert logits.tolist() == [[10.0, 11.0], [20.0, 21.0], [0.0, 1.0]]


def test_a_row_of_no_scenario_takes_the_default() -> None:
    """PAD, OOV and row 5, which is a scenario without heads, are answered as scenario 1, the default."""
    selection = HeadSelection(by_scenarios(), {**ROWS, "place": 6}, [4, 2, 3])
    assert selection(HEADS.expand(3, 6), torch.tensor([0, 1, 5])).tolist() == [[10.0, 11.0]] * 3
    assert selection(HEADS, torch.tensor([4])).tolist() == [[0.0, 1.0]]


def test_scenarios_that_are_strings_are_ordered_by_their_raw_ids() -> None:
    names = ["feed", "search", "video"]
    recipe = by_scenarios(
        heads={"by": "scenarios", "scenarios": names}, scenario={"feature": "place", "default": "feed"}
    )
    selection = HeadSelection(recipe, ROWS, None)
    for position, name in enumerate(sorted(names, key=raw_id)):
        expected = 10.0 * names.index(name)
        assert selection(HEADS, torch.tensor([2 + position])).tolist() == [[expected, expected + 1]]


def test_scenarios_of_a_hashed_table_need_no_vocabulary() -> None:
    recipe = by_scenarios(
        tables={
            "user": {"kind": "vocabulary", "width": 8},
            "item": {"kind": "vocabulary", "width": 8},
            "place": {"kind": "hashed", "width": 4, "rows": 1000},
            "zip": {"kind": "hashed", "width": 4, "rows": 16},
        }
    )
    selection = HeadSelection(recipe, {**ROWS, "place": 1002}, None)
    rows = hashed_rows(torch.tensor([3, 1, 2]).numpy(), 1000)
    assert selection(HEADS.expand(3, 6), torch.from_numpy(rows)).tolist() == [[0.0, 1.0], [10.0, 11.0], [20.0, 21.0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "needs `scenario_rows`: table place has 4 ids, of which 3 are heads.scenarios"),
        ([2, 3], r"\[2, 3\] found; one row of table place in \[2, 6\) is needed for each of 3"),
        ([1, 2, 3], r"\[1, 2, 3\] found"),
        ([2, 3, 6], r"\[2, 3, 6\] found"),
    ],
)
def test_rows_that_cannot_be_are_refused(rows: list[int] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HeadSelection(by_scenarios(), {**ROWS, "place": 6}, rows)
