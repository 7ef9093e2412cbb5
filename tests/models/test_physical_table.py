"""Addresses in the physical table, with worked numbers."""

import pytest
import torch

from tests.models.support import ROWS
from tests.support.recipes import tiny_recipe
from triton_ads.models.physical_table import Addresses, PhysicalTable

LAYOUT = PhysicalTable(unit=1, rows=7, first={"a": 0, "b": 4}, units={"a": 2, "b": 1}, ids={"a": 2, "b": 3})


def test_the_drawing_in_the_docstring() -> None:
    rows, valid = Addresses(LAYOUT, ["a", "b"])(torch.tensor([[1, 1]]))
    assert rows.tolist() == [[2, 3, 5]]
    assert valid.tolist() == [[True, True, True]]


def test_pad_is_marked_in_each_of_its_physical_rows() -> None:
    rows, valid = Addresses(LAYOUT, ["b", "a"])(torch.tensor([[2, 0]]))
    assert rows.tolist() == [[6, 0, 1]]
    assert valid.tolist() == [[True, False, False]]


def test_ids_that_a_table_does_not_hold_become_oov() -> None:
    known = Addresses(LAYOUT, ["a", "b"]).known(torch.tensor([[0, 0], [1, 2], [2, 3], [-1, -7], [2**63 - 1, -(2**63)]]))
    assert known.tolist() == [[0, 0], [1, 2], [1, 1], [1, 1], [1, 1]]


def test_tables_lie_in_the_recipes_order() -> None:
    layout = PhysicalTable.of(tiny_recipe(), ROWS)  # widths 8, 8, 4, 4
    assert (layout.unit, layout.units) == (4, {"user": 2, "item": 2, "place": 1, "zip": 1})
    assert layout.first == {"user": 0, "item": 12, "place": 26, "zip": 31}
    assert layout.rows == 49


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"user": 6}, r"tables \['user'\] found, \['item', 'place', 'user', 'zip'\] needed"),
        ({**ROWS, "other": 3}, "'other'.* found"),
        ({**ROWS, "item": 1}, r"table_rows\['item'\]: 1 found, 2 or more needed"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PhysicalTable.of(tiny_recipe(), rows)
