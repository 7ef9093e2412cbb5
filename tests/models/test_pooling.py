"""The masked mean: worked numbers, and a loop."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.models.reference import mean_of_valid
from triton_ads.models.pooling import masked_mean

VALUES = st.floats(-100, 100, width=32)


def test_worked_numbers() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [50.0, 50.0]], [[7.0, 8.0], [9.0, 9.0], [9.0, 9.0]]])
    valid = torch.tensor([[True, True, False], [False, False, False]])
    assert masked_mean(x, valid).tolist() == [[2.0, 4.0], [0.0, 0.0]]


@given(st.data())
def test_equals_the_mean_over_what_is_valid(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=3, max_dims=3, max_side=5))
    x = data.draw(arrays(np.float32, shape, elements=VALUES))
    valid = data.draw(arrays(np.bool_, shape[:2]))
    found = masked_mean(torch.from_numpy(x), torch.from_numpy(valid)).numpy()
    expected = np.stack([mean_of_valid(row.astype(np.float64), v) for row, v in zip(x, valid, strict=True)])
    np.testing.assert_allclose(found, expected, atol=1e-4)  # five float32 values up to 100: 5 x 100 x 2^-24, rounded up


@given(st.data())
def test_what_lies_at_padding_never_matters(data: st.DataObject) -> None:
    shape = data.draw(array_shapes(min_dims=3, max_dims=3, max_side=5))
    x, other = (torch.from_numpy(data.draw(arrays(np.float32, shape, elements=VALUES))) for _ in range(2))
    valid = torch.from_numpy(data.draw(arrays(np.bool_, shape[:2])))
    assert torch.equal(masked_mean(x, valid), masked_mean(torch.where(valid.unsqueeze(-1), x, other), valid))
