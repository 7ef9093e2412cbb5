"""The vectorised hash against the xxhash library."""

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.features.xxh64 import xxh64_int64

INT64 = st.integers(-(2**63), 2**63 - 1)

#: Written down from the xxhash library 4.1, so that a change of either side is seen.
GOLDEN = {
    0: 3803688792395291579,
    1: 11468921228449061269,
    42: 13066772586158965587,
    -1: 9642548396912002761,
    -(2**63): 4558309869707674848,
    2**63 - 1: 18406436390665352972,
}


@pytest.mark.parametrize(("value", "expected"), GOLDEN.items())
def test_golden(value: int, expected: int) -> None:
    assert int(xxh64_int64(np.array([value]))[0]) == expected


@given(st.lists(INT64, max_size=50))
def test_equals_the_library(values: list[int]) -> None:
    found = xxh64_int64(np.array(values, dtype=np.int64))
    assert found.tolist() == [xxhash.xxh64_intdigest(np.array(v, dtype="<i8").tobytes()) for v in values]


@pytest.mark.filterwarnings("error")
def test_keeps_the_shape_and_reads_any_stride() -> None:
    values = np.arange(12).reshape(3, 4)
    assert xxh64_int64(values[:, ::2]).tolist() == xxh64_int64(values).reshape(3, 4)[:, ::2].tolist()
    assert xxh64_int64(np.array(42)).shape == ()
    assert xxh64_int64(np.empty((0, 5), dtype=np.int64)).shape == (0, 5)
