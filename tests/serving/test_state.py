import numpy as np
import pytest

from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.state import StateFormat

OURS = StateFormat("0000ff000002", 3)


def test_a_state_carries_its_release():
    state_BZ = OURS.empty(2)
    assert state_BZ.shape == (2, 5)
    assert state_BZ[:, :2].tolist() == [[255, 2]] * 2


def test_values_of_a_state():
    state_Z = OURS.empty(1)[0]
    state_Z[2:] = [1, 2, 3]
    assert OURS.values(state_Z).tolist() == [1, 2, 3]


@pytest.mark.parametrize("length", [0, 4, 6])
def test_another_length(length):
    with pytest.raises(RequestError, match=f"state: length {length} found, 5 allowed") as error:
        OURS.values(np.zeros(length, np.float32))
    assert error.value.cause is Cause.WRONG_LENGTH


@pytest.mark.parametrize("other", ["0000ff000003", "0000fe000002", "ffffffffffff"])
def test_another_release(other):
    with pytest.raises(RequestError, match=f"of release {other}, this scorer is of release 0000ff000002") as error:
        OURS.values(StateFormat(other, 3).empty(1)[0])
    assert error.value.cause is Cause.OTHER_RELEASE


@pytest.mark.parametrize("header", [np.nan, np.inf, -1.0, 2.0**24])
def test_a_header_that_names_no_release(header):
    state_Z = OURS.empty(1)[0]
    state_Z[0] = header
    with pytest.raises(RequestError, match="state: of release unknown"):
        OURS.values(state_Z)
