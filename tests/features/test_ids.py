"""Raw ids and hashed rows: golden values, because training and serving must agree across releases."""

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.features.ids import MISSING, hashed_rows, raw_id

INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (42, 42),
        (-7, -7),
        ("", -1205034819632174695),
        ("engineer", -4713007880655145680),
        ("42", 7919287270473417401),
        ("köln", -7401072157812086685),
    ],
)
def test_raw_id_golden(value: int | str, expected: int) -> None:
    assert raw_id(value) == expected


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 99999999999999999999999])
def test_an_integer_that_is_no_int64_is_refused_with_its_value(value: int) -> None:
    with pytest.raises(ValueError, match=f"id {value} found, an int64 allowed: -9223372036854775808 to 922337"):
        raw_id(value)


def test_the_largest_and_the_smallest_int64_are_ids() -> None:
    assert (raw_id(2**63 - 1), raw_id(-(2**63))) == (2**63 - 1, -(2**63))


def test_hashed_rows_golden() -> None:
    raw = np.array([[0, 1, 42], [MISSING, -(2**63), 2**63 - 1]])
    assert hashed_rows(raw, 256).tolist() == [[189, 151, 85], [0, 226, 14]]


@given(st.lists(INT64, max_size=40), st.integers(1, 2**31))
def test_hashed_rows_equal_a_loop_over_the_library(values: list[int], rows: int) -> None:
    expected = [
        0 if v == MISSING else 2 + xxhash.xxh64_intdigest(np.array(v, dtype="<i8").tobytes()) % rows for v in values
    ]
    assert hashed_rows(np.array(values, dtype=np.int64), rows).tolist() == expected
