import numpy as np
import pytest

from triton_ads.client.request import deadline_after, json_body, rank_inputs


def test_every_input_is_there_and_empty_where_nothing_is_given():
    inputs = rank_inputs([7, 5])
    shapes = {name: (array.dtype.name, array.shape) for name, array in inputs.items()}
    assert shapes == {
        "user_id": ("int64", (1, 1)),
        "user_features": ("int64", (1, 0)),
        "user_dense": ("float32", (1, 0)),
        "sequence_lengths": ("int32", (1, 0)),
        "sequences": ("int64", (1, 0)),
        "context_features": ("int64", (1, 0)),
        "context_dense": ("float32", (1, 0)),
        "candidates": ("int64", (1, 2)),
        "item_features": ("int64", (1, 0)),
        "item_dense": ("float32", (1, 0)),
        "item_values": ("float32", (1, 0)),
        "deadline_us": ("int64", (1, 1)),
        "insisted_tier": ("object", (1, 1)),
    }
    assert inputs["user_id"].item() == -1
    assert inputs["deadline_us"].item() == 0
    assert inputs["insisted_tier"].item() == b""


def test_sequences_lie_one_after_the_other_event_by_event():
    inputs = rank_inputs([1], sequences=[np.array([[30, 1], [20, 2]]), np.empty((0, 1)), [[9]]])
    assert inputs["sequence_lengths"].tolist() == [[2, 0, 1]]
    assert inputs["sequences"].tolist() == [[30, 1, 20, 2, 9]]


def test_item_tensors_are_flattened_row_by_row():
    inputs = rank_inputs([1, 2], item_features=[[1, 2, 3], [4, 5, 6]], item_dense=[[0.5], [0.25]])
    assert inputs["item_features"].tolist() == [[1, 2, 3, 4, 5, 6]]
    assert inputs["item_dense"].tolist() == [[0.5, 0.25]]


def test_ids_of_other_integer_types_keep_their_bits():
    hashes = np.array([2**63 + 5], np.uint64)
    assert rank_inputs(hashes)["candidates"].tolist() == [[5 - 2**63]]
    assert rank_inputs(np.array([3], np.int8))["candidates"].tolist() == [[3]]


@pytest.mark.parametrize("wrong", [[1.5], ["a"], [True]])
def test_ids_that_are_no_integers_are_refused(wrong):
    with pytest.raises(TypeError, match="candidates: ids are integers"):
        rank_inputs(wrong)


def test_a_deadline_is_absolute(monkeypatch):
    monkeypatch.setattr("triton_ads.client.request.time.time_ns", lambda: 5_000_000)
    assert deadline_after(None) == 0
    assert deadline_after(2.5) == 5_000 + 2_500


def test_a_json_body_has_text_as_text():
    body = json_body({"insisted_tier": np.array([[b"high"]], np.object_), "x": np.empty((1, 0), np.float32)})
    assert body == (
        '{"inputs": [{"name": "insisted_tier", "datatype": "BYTES", "shape": [1, 1], "data": ["high"]}, '
        '{"name": "x", "datatype": "FP32", "shape": [1, 0], "data": []}]}'
    )
