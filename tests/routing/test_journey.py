"""What the router knows of a request: worked features, and loops against the vectors."""

import numpy as np
import pytest

from tests.support.recipes import tiny_recipe
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe
from triton_ads.routing.journey import BAG_ROWS, JourneyFeatures

#: The user's table is large: an identity. `zip` is hashed, 16 buckets.
ROWS = {"user": 500, "item": 300, "place": 5, "zip": 18}


def plain(recipe: Recipe, user_ids: list[int], dense: list[float], sequence_ids: list[int]) -> dict[str, float]:
    """The features of one request by their names, one event after the other; what is zero is left out."""
    numbers = {c.feature: x for c, x in zip(recipe.dense_columns("user", "context"), dense, strict=True)}
    bags: dict[str, float] = {}
    for column, row in zip(recipe.id_columns("user", "context"), user_ids, strict=True):
        if ROWS[str(column.table)] <= BAG_ROWS and row:
            bags[f"{column.feature}={row}"] = bags.get(f"{column.feature}={row}", 0) + 1
    ids = list(sequence_ids)
    for s in recipe.sequences:
        events = [[ids.pop(0) for _ in s.fields] for _ in range(s.length)]
        events = [event for event in events if any(event)]
        widest = max(range(len(s.fields)), key=lambda j: ROWS[s.fields[j].table])
        numbers[f"{s.name} events"] = float(np.log1p(len(events)))
        different = {event[widest] for event in events} - {0}
        numbers[f"{s.name} diversity"] = len(different) / len(events) if events else 0.0
        for j, f in enumerate(s.fields):
            if ROWS[f.table] <= BAG_ROWS:
                for i, event in enumerate(events):
                    name = f"{s.name}.{f.name}={event[j]}"
                    if event[j]:
                        bags[name] = bags.get(name, 0) + 1 / len(events)
                        if i == 0:
                            bags[f"latest {name}"] = 1.0
    products = {
        f"{bag} x {number}": weight * value
        for bag, weight in bags.items()
        if recipe.scenario is not None and bag.startswith(f"{recipe.scenario.feature}=")
        for number, value in numbers.items()
    }
    return {name: value for name, value in {**numbers, **bags, **products}.items() if value}


def named(features: JourneyFeatures, row_X: np.ndarray) -> dict[str, float]:
    return {features.names[i]: float(row_X[i]) for i in np.flatnonzero(row_X)}


def test_worked() -> None:
    """`seen`: items 7, 7, 9 at zips 3, 3, 4, the latest first; `bought`: nothing."""
    features = JourneyFeatures(tiny_recipe(), ROWS)
    found = features(np.array([[77, 5, 2]]), np.array([[0.5]], np.float32), np.array([[7, 3, 7, 3, 9, 4, 0, 0]]))
    third, log4 = pytest.approx(1 / 3), pytest.approx(np.log(4))
    assert named(features, found[0]) == {
        "activity": 0.5,
        "seen events": log4,
        "seen diversity": pytest.approx(2 / 3),
        "zip_code=5": 1.0,
        "place=2": 1.0,
        "seen.zip_code=3": pytest.approx(2 / 3),
        "seen.zip_code=4": third,
        "latest seen.zip_code=3": 1.0,
        "place=2 x activity": 0.5,
        "place=2 x seen events": log4,
        "place=2 x seen diversity": pytest.approx(2 / 3),
    }


@pytest.mark.parametrize("changes", [{}, {"scenario": None}, {"sequences": []}, {"scenario": None, "sequences": []}])
@pytest.mark.parametrize("rows", [1, 2, 40])
def test_equals_loops(changes: dict[str, object], rows: int) -> None:
    recipe = tiny_recipe(**changes)
    inputs = {name: tensor.numpy() for name, tensor in example_inputs(recipe, ROWS, rows, seed=rows).items()}
    sequence_ids = inputs.get("sequence_ids")
    features = JourneyFeatures(recipe, ROWS)
    found = features(inputs["user_ids"], inputs["user_dense"], sequence_ids)
    assert (found.dtype, found.shape) == (np.float32, (rows, len(features.names)))
    for m in range(rows):
        ids = [] if sequence_ids is None else sequence_ids[m].tolist()
        expected = plain(recipe, inputs["user_ids"][m].tolist(), inputs["user_dense"][m].tolist(), ids)
        assert named(features, found[m]) == pytest.approx(expected, rel=1e-6)  # float32


def test_names_are_unique() -> None:
    names = JourneyFeatures(tiny_recipe(), ROWS).names
    assert len(set(names)) == len(names)


def test_a_request_of_whom_nothing_is_known() -> None:
    features = JourneyFeatures(tiny_recipe(), ROWS)
    found = features(np.array([[1, 1, 1]]), np.zeros((1, 1), np.float32), np.zeros((1, 8), np.int64))
    assert named(features, found[0]) == {"zip_code=1": 1.0, "place=1": 1.0}


def test_no_requests() -> None:
    features = JourneyFeatures(tiny_recipe(), ROWS)
    found = features(np.zeros((0, 3), np.int64), np.zeros((0, 1), np.float32), np.zeros((0, 8), np.int64))
    assert found.shape == (0, len(features.names))


def test_only_large_tables_and_no_dense_column() -> None:
    recipe = tiny_recipe(
        scenario=None,
        sequences=[],
        features=[
            {"name": "user_id", "side": "user", "table": "user"},
            {"name": "item_id", "side": "item", "table": "item"},
        ],
    )
    features = JourneyFeatures(recipe, ROWS)
    assert features.names == []
    assert features(np.array([[3], [4]]), None, None).shape == (2, 0)
