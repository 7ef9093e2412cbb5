"""The stage as a whole: the same bytes each time, what fits the recipe, and errors for what does not."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.data.conftest import ROOT
from triton_ads.data import DataError, Examples
from triton_ads.data.log import Log
from triton_ads.data.prepare import write
from triton_ads.recipe import Recipe, parse_recipe


def changed(**parts: Any) -> Recipe:
    document = yaml.safe_load((ROOT / "build" / "recipes" / "movielens.yaml").read_text())
    return parse_recipe({**document, **parts})


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_same_recipe_gives_the_same_bytes(recipe: Recipe, log: Log, prepared: Path, tmp_path: Path) -> None:
    write(recipe, log, tmp_path)
    assert digests(tmp_path) == digests(prepared)


def test_model_inputs(recipe: Recipe, examples: Examples, prepared: Path) -> None:
    batch = examples.batch(np.array([99_999, 0, 50_000]))
    assert {name: (x.dtype.name, x.shape) for name, x in batch.inputs.items()} == {
        "user_ids": ("int64", (3, 8)),
        "item_ids": ("int64", (3, 8)),
        "user_dense": ("float32", (3, 1)),
        "sequence_ids": ("int64", (3, 450)),
        "item_dense": ("float32", (3, 1)),
    }
    # The log's first event has no past.
    assert not batch.inputs["sequence_ids"][1].any()
    assert batch.inputs["user_dense"][1, 0] == batch.inputs["item_dense"][1, 0] == 0
    # Every id is a row of its table.
    rows = json.loads((prepared / "table_rows.json").read_text())
    everything = examples.batch(np.arange(0, 100_000, 7)).inputs
    for name, columns in (
        ("user_ids", [c.table for c in recipe.id_columns("user", "context")]),
        ("item_ids", [c.table for c in recipe.id_columns("item")]),
        ("sequence_ids", [f.table for s in recipe.sequences for _ in range(s.length) for f in s.fields]),
    ):
        assert everything[name].min() >= 0
        assert np.all(everything[name].max(axis=0) < [rows[str(t)] for t in columns])


def test_a_batch_does_not_depend_on_its_neighbours(examples: Examples) -> None:
    positions = np.array([5, 99_000, 42_000])
    together = examples.batch(positions)
    for m, position in enumerate(positions):
        alone = examples.batch(np.array([position]))
        assert all((alone.inputs[name][0] == x[m]).all() for name, x in together.inputs.items())


def test_a_smaller_recipe(log: Log, tmp_path: Path) -> None:
    """No dense column, no scenario, one sequence without a gap, genres cut to two."""
    recipe = changed(
        features=[
            {"name": "user_id", "side": "user", "table": "user"},
            {"name": "item_id", "side": "item", "table": "item"},
            {"name": "genres", "side": "item", "kind": "ids", "table": "genre", "length": 2},
        ],
        sequences=[{"name": "conversions", "length": 4, "fields": [{"name": "item_id", "table": "item"}]}],
        scenario=None,
        labels=["dcvr"],
        rank_by=None,
    )
    write(recipe, log, tmp_path)
    batch = Examples.load(recipe, tmp_path / "examples").batch(np.array([99_999]))
    assert {name: x.shape for name, x in batch.inputs.items()} == {
        "user_ids": (1, 1),
        "item_ids": (1, 3),
        "sequence_ids": (1, 4),
    }
    assert batch.labels.shape == (1, 1)
    assert np.load(tmp_path / "store" / "users" / "dense.npy").shape == (943, 0)


def test_values_are_stored_for_the_rule_and_shown_to_no_model(log: Log, tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "build" / "recipes" / "movielens.yaml").read_text())
    values = [{"name": name, "side": "item", "kind": "value"} for name in ("bid", "margin")]
    with_values = changed(features=[*document["features"], *values], rank_by="bid * cvr + margin")
    bid = np.arange(1682, dtype=np.float32)
    bid[3] = np.nan
    log = replace(log, item_values={"margin": -bid, "bid": bid})
    write(with_values, log, tmp_path)
    np.testing.assert_array_equal(np.load(tmp_path / "store" / "items" / "values.npy"), np.stack([bid, -bid], axis=1))
    inputs = Examples.load(with_values, tmp_path / "examples").batch(np.array([99_999])).inputs
    assert {name: x.shape[1] for name, x in inputs.items() if name.startswith("item")} == {
        "item_ids": 8,
        "item_dense": 1,
    }
    with pytest.raises(DataError, match="value 'margin' of item 8 is infinite; a number is allowed"):
        infinite = np.where(np.arange(1682) == 7, np.float32(np.inf), bid)
        write(with_values, replace(log, item_values={"bid": bid, "margin": infinite}), tmp_path)


def test_without_sequences(log: Log, tmp_path: Path) -> None:
    recipe = changed(sequences=[])
    write(recipe, log, tmp_path)
    assert "sequence_ids" not in Examples.load(recipe, tmp_path / "examples").batch(np.array([1])).inputs
    assert np.load(tmp_path / "store" / "users" / "sequences.npy").shape == (943, 0)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"labels": ["click"], "rank_by": None}, "labels: the data has no label 'click'; allowed: cvr, dcvr"),
        (
            {"sequences": [{"name": "clicks", "length": 2, "fields": [{"name": "item_id", "table": "item"}]}]},
            "the data has no sequence 'clicks'; allowed: recent, space, conversions",
        ),
        (
            {"sequences": [{"name": "recent", "length": 2, "fields": [{"name": "price", "table": "item"}]}]},
            "the data has no event field 'price'; allowed: item_id, genre, action, gap",
        ),
    ],
)
def test_what_the_data_has_not_is_refused(parts: dict[str, Any], message: str, log: Log, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        write(changed(**parts), log, tmp_path)


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ({"name": "income", "side": "user", "table": "user"}, "no id column of side user 'income'; allowed: user_id"),
        (
            {"name": "price", "side": "item", "kind": "dense"},
            "no dense column of side item 'price'; allowed: popularity",
        ),
        ({"name": "bid", "side": "item", "kind": "value"}, "no value column of side item 'bid'; allowed: none"),
        ({"name": "load", "side": "context", "kind": "dense"}, "no dense column of side context 'load'; allowed: none"),
    ],
)
def test_a_feature_that_the_data_has_not_is_refused(
    feature: dict[str, Any], message: str, recipe: Recipe, log: Log, tmp_path: Path
) -> None:
    features = [f.model_dump(exclude_none=True) for f in recipe.features]
    with pytest.raises(DataError, match=message):
        write(changed(features=[*features, feature]), log, tmp_path)


def test_incomplete_examples_are_named(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no examples of recipe movielens"):
        Examples.load(recipe, tmp_path)
