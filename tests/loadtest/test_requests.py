"""Requests as bytes: what a server reads out of them, and the deadline that is stamped."""

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.client.request import rank_inputs
from triton_ads.loadtest.requests import Prepared, read_requests, triton_request, write_requests

REQUESTS = st.builds(Prepared, st.binary(max_size=50), st.integers(0, 99), st.integers(0, 2000))


@given(st.lists(REQUESTS, max_size=5))
def test_requests_are_read_as_they_were_written(tmp_path_factory, requests):
    path = tmp_path_factory.mktemp("requests") / "file"
    write_requests(requests, path)
    assert read_requests(path) == requests


@given(st.integers(0, 300), st.integers(1, 2**62))
def test_the_deadline_is_stamped_where_it_stands_and_nothing_else_changes(candidates, deadline_us):
    def ask(deadline: int) -> Prepared:
        inputs = rank_inputs(np.arange(candidates), user_id=7, deadline_us=deadline, tier="high")
        return triton_request("rank", inputs)

    prepared = ask(0)
    assert prepared.candidates == candidates
    assert prepared.due_until(deadline_us) == ask(deadline_us).content
    assert struct.unpack_from("<q", ask(deadline_us).content, prepared.deadline_at) == (deadline_us,)


def test_a_model_without_a_deadline_has_none_to_stamp():
    assert triton_request("naive", {"user_id": np.array([[7]]), "candidates": np.array([[1, 2]])}).deadline_at == 0
