"""The router's store: what was known of each user and item when the log had ended."""

import json
from pathlib import Path

import numpy as np
import pytest

from triton_ads.data.log import Log
from triton_ads.data.past import gap_bucket
from triton_ads.features.encoder import SequenceEncoder
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe


def load(prepared: Path, name: str) -> np.ndarray:
    return np.load(prepared / "store" / f"{name}.npy")


def test_shapes_and_dtypes(prepared: Path) -> None:
    found = {
        f"{side}/{name}": (load(prepared, f"{side}/{name}").dtype.name, load(prepared, f"{side}/{name}").shape)
        for side, names in (
            ("users", ["ids", "rows", "dense", "sequences", "history"]),
            ("items", ["ids", "rows", "dense", "values"]),
        )
        for name in names
    }
    assert found == {
        "users/ids": ("int64", (943,)),
        "users/rows": ("int32", (943, 5)),
        "users/dense": ("float32", (943, 1)),
        "users/sequences": ("int32", (943, 450)),
        "users/history": ("int32", (943,)),
        "items/ids": ("int64", (1682,)),
        "items/rows": ("int32", (1682, 8)),
        "items/dense": ("float32", (1682, 1)),
        "items/values": ("float32", (1682, 0)),
    }
    assert json.loads((prepared / "store" / "titles.json").read_text())["50"] == "Star Wars"


@pytest.mark.parametrize("user", [1, 405, 943])
def test_a_users_sequences_are_what_the_request_encoder_makes_of_the_raw_history(
    user: int, recipe: Recipe, prepared: Path, log: Log
) -> None:
    """The store and a client that sends features give the model the same rows."""
    tables = Tables.load(recipe, prepared / "vocabularies")
    mine = np.flatnonzero(log.user_ids[log.user] == user)[::-1]
    snapshot = log.time[-1] + 1
    lengths, raw = [], []
    for sequence, field in (("recent", "item_id"), ("space", "genre"), ("conversions", "item_id")):
        held = mine[log.sequences[sequence][mine]]
        gap = gap_bucket(snapshot - log.time[held])
        lengths.append(len(held))
        raw.append(np.stack([log.event_fields[field][held], log.event_fields["action"][held], gap], axis=1).ravel())
    expected = SequenceEncoder(recipe, tables).encode(lengths, np.concatenate(raw))
    at = int(np.flatnonzero(load(prepared, "users/ids") == user)[0])
    assert load(prepared, "users/sequences")[at].tolist() == expected.rows.tolist()
    assert load(prepared, "users/history")[at] == len(mine)
    assert load(prepared, "users/dense")[at, 0] == pytest.approx(np.log1p(len(mine)) / np.log1p(1000))


def test_an_item(prepared: Path, log: Log) -> None:
    """Star Wars, film 50: rated 583 times, more often than any other."""
    at = int(np.flatnonzero(load(prepared, "items/ids") == 50)[0])
    assert load(prepared, "items/dense")[at, 0] == pytest.approx(np.log1p(583) / np.log1p(1000))
    assert load(prepared, "items/dense").argmax() == at


def test_users_of_later_parts_have_an_oov_identity_and_known_attributes(prepared: Path) -> None:
    rows = load(prepared, "users/rows")
    table_rows = json.loads((prepared / "table_rows.json").read_text())
    assert np.count_nonzero(rows[:, 0] >= 2) == table_rows["user"] - 2
    assert np.count_nonzero(rows[:, 0] == 1) == 943 - (table_rows["user"] - 2)
    assert rows[:, 1:4].min() >= 2
