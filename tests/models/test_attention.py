"""Attention over a history: worked numbers, a loop over the valid events, and the edges of the mask."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.models import reference
from triton_ads.models.attention import MASKED, attend, attend_all

VALUES = st.floats(-10, 10, width=32)


def test_worked_numbers() -> None:
    """Scores log 3 and 0 after division by sqrt(4) x 0.5 = 1: weights 3/4 and 1/4."""
    query = torch.tensor([[math.log(3), 0.0, 0.0, 0.0]])
    history = torch.tensor([[[1.0, 4.0, 0.0, 0.0], [0.0, 8.0, 4.0, 0.0], [99.0, 99.0, 99.0, 99.0]]])
    read = attend(query, history, torch.tensor([[True, True, False]]), temperature=0.5)
    torch.testing.assert_close(read, torch.tensor([[0.75, 5.0, 1.0, 0.0]]))


@given(st.data())
def test_equals_attention_over_the_valid_events_alone(data: st.DataObject) -> None:
    m, t, d = (data.draw(st.integers(1, 4)) for _ in range(3))
    query = data.draw(arrays(np.float32, (m, d), elements=VALUES))
    history = data.draw(arrays(np.float32, (m, t, d), elements=VALUES))
    valid = data.draw(arrays(np.bool_, (m, t)))
    temperature = data.draw(st.sampled_from([0.5, 1.0, 4.0]))
    found = attend(*(torch.from_numpy(x) for x in (query, history, valid)), temperature)
    expected = [
        reference.attend(q.astype(np.float64), h.astype(np.float64), v, temperature)
        for q, h, v in zip(query, history, valid, strict=True)
    ]
    # Scores reach 400 (4 x 10 x 10 / (sqrt(4) 0.5)), off by 400 x 2^-23; weights by as much, read values by 10 x that.
    np.testing.assert_allclose(found.numpy(), np.stack(expected), atol=2e-3, rtol=1e-4)


@given(st.data())
def test_what_lies_at_padding_never_matters(data: st.DataObject) -> None:
    query = torch.from_numpy(data.draw(arrays(np.float32, (2, 3), elements=VALUES)))
    history, other = (torch.from_numpy(data.draw(arrays(np.float32, (2, 4, 3), elements=VALUES))) for _ in range(2))
    valid = torch.from_numpy(data.draw(arrays(np.bool_, (2, 4))))
    changed = torch.where(valid.unsqueeze(-1), history, other)
    assert torch.equal(attend(query, history, valid, 1.0), attend(query, changed, valid, 1.0))


def test_an_empty_history_reads_exactly_zero() -> None:
    read = attend(torch.ones(2, 3), torch.ones(2, 5, 3), torch.tensor([[False] * 5, [True] + [False] * 4]), 1.0)
    assert read.tolist() == [[0.0] * 3, [1.0] * 3]


def test_one_event_is_read_as_it_is() -> None:
    history = torch.randn(3, 1, 4)
    read = attend(torch.randn(3, 4), history, torch.ones(3, 1, dtype=torch.bool), 2.0)
    torch.testing.assert_close(read, history[:, 0])


def test_a_higher_temperature_reads_more_events() -> None:
    query, history = torch.tensor([[6.0, 0.0]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    valid = torch.ones(1, 2, dtype=torch.bool)
    second = [float(attend(query, history, valid, temperature)[0, 1]) for temperature in (0.5, 1.0, 2.0, 100.0)]
    assert second == sorted(second)
    assert second[0] < 0.001
    assert second[-1] == pytest.approx(0.5, abs=0.02)


def test_the_mask_fits_half_precision_and_leaves_nothing() -> None:
    assert torch.isfinite(torch.tensor(MASKED, dtype=torch.float16))
    for dtype in (torch.float32, torch.bfloat16):
        valid = torch.tensor([[True, False]])
        read = attend(torch.ones(1, 2).to(dtype), torch.tensor([[[0.0, 0.0], [8.0, 8.0]]]).to(dtype), valid, 1.0)
        assert read.tolist() == [[0.0, 0.0]]


def test_heads_read_by_themselves() -> None:
    """Two heads of one float: the first sees scores log 3 and 0, the second 0 and 0."""
    queries = torch.tensor([[[math.log(3), 0.0], [0.0, 0.0]]])
    history = torch.tensor([[[1.0, 2.0], [0.0, 4.0], [99.0, 99.0]]])
    read = attend_all(queries, history, torch.tensor([[True, True, False]]), temperature=1.0, heads=2)
    torch.testing.assert_close(read, torch.tensor([[[0.75, 3.0], [0.5, 3.0]]]))


@given(st.data())
def test_many_queries_equal_one_at_a_time(data: st.DataObject) -> None:
    m, q, t, d = (data.draw(st.integers(1, 4)) for _ in range(4))
    heads = data.draw(st.integers(1, 3))
    queries = data.draw(arrays(np.float32, (m, q, d * heads), elements=VALUES))
    history = data.draw(arrays(np.float32, (m, t, d * heads), elements=VALUES))
    valid = data.draw(arrays(np.bool_, (m, t)))
    temperature = data.draw(st.sampled_from([0.5, 1.0, 4.0]))
    found = attend_all(*(torch.from_numpy(x) for x in (queries, history, valid)), temperature, heads)
    expected = [
        reference.attend_in_heads(qs.astype(np.float64), h.astype(np.float64), v, temperature, heads)
        for qs, h, v in zip(queries, history, valid, strict=True)
    ]
    # As above.
    np.testing.assert_allclose(found.numpy(), np.stack(expected), atol=2e-3, rtol=1e-4)
