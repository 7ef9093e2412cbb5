"""The calibration stage: which maps are fitted, what they do to the test part, and what is written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.logs import planted_log, planted_recipe
from triton_ads.data import Examples
from triton_ads.data.prepare import write
from triton_ads.features.vocabulary import Tables
from triton_ads.models.calibration import LabelMap
from triton_ads.recipe import Recipe
from triton_ads.training import new_model, train
from triton_ads.training.calibrate import apply_maps, calibrate, calibrated_ranker, fit_maps, measure_ratios
from triton_ads.training.calibrate_fit import sigmoid
from triton_ads.training.fit import predict
from triton_ads.training.measures import quality


def recipe(**calibration: Any) -> Recipe:
    found = planted_recipe()
    return found.model_copy(update={"calibration": found.calibration.model_copy(update=calibration)})


def outcomes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three scenarios, rows 2 to 4, that convert at .2, .5 and .8 whatever the logit; the last has 15 negatives."""
    row_n = np.repeat([2, 3, 4], [200, 100, 75])
    label_n = np.concatenate([np.arange(200) % 5 == 0, np.arange(100) % 2 == 0, np.arange(75) % 5 > 0])
    logit_n1 = np.zeros((375, 1))
    return logit_n1, label_n[:, None].astype(np.float64), row_n


def test_enough_of_both_outcomes_makes_a_map() -> None:
    found = fit_maps(recipe(method="platt", min_examples=16), *outcomes())
    assert [(m.label, m.row) for m in found] == [("cvr", None), ("cvr", 2), ("cvr", 3)]
    assert [(m.label, m.row) for m in fit_maps(recipe(method="platt", min_examples=15), *outcomes())][-1] == ("cvr", 4)
    assert [m.row for m in fit_maps(recipe(method="platt", min_examples=15, by_scenario=False), *outcomes())] == [None]
    assert fit_maps(recipe(method="platt", min_examples=225), *outcomes()) == []
    assert fit_maps(recipe(method="none", min_examples=1), *outcomes()) == []


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_scenarios_get_their_rates_and_small_ones_everyones(method: str) -> None:
    logit_n1, label_n1, row_n = outcomes()
    maps = fit_maps(recipe(method=method, min_examples=16), logit_n1, label_n1, row_n)
    found = sigmoid(apply_maps(["cvr"], maps, np.zeros((4, 1)), np.array([2, 3, 4, 9])))[:, 0]
    overall = (40 + 50 + 60) / 375
    assert found == pytest.approx([0.2, 0.5, overall, overall], abs=1e-9)


def test_ratios_worked() -> None:
    label_n1 = np.array([1, 0, 1, 0, 0], np.float64)[:, None]
    predicted_n1 = np.array([0.5, 0.25, 0.25, 0.5, 0.5])[:, None]
    row_n = np.array([2, 2, 3, 3, 4])
    found = measure_ratios(recipe(), predicted_n1, label_n1, row_n, {2: "a", 3: "b", 4: "c"}.__getitem__)
    assert [(r.label, r.scenario, r.examples, r.positives, r.predicted, r.ratio) for r in found] == [
        ("cvr", None, 5, 2, 2.0, 1.0),
        ("cvr", "a", 2, 1, 0.75, 0.75),
        ("cvr", "b", 2, 1, 0.75, 0.75),
        ("cvr", "c", 1, 0, 0.5, float("inf")),
    ]
    without = recipe().model_copy(update={"scenario": None})
    assert [r.scenario for r in measure_ratios(without, predicted_n1, label_n1, row_n, str)] == [None]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    write(recipe(), planted_log(), folder)
    return folder


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("standard")
    train(recipe(), "standard", data, folder)
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_logits_are_kept_with_the_checkpoint(trained: Path, data: Path) -> None:
    examples = Examples.load(recipe(), data / "examples")
    model = new_model(recipe(), "standard", data)
    model.load_state_dict(torch.load(trained / "checkpoint.pt", weights_only=True))
    for part in ("validation", "test"):
        np.testing.assert_array_equal(
            np.load(trained / f"logits.{part}.npy"), predict(model, examples, examples.part(part))
        )


@pytest.mark.parametrize("method", ["none", "platt", "isotonic"])
def test_what_the_stage_writes_is_what_the_served_model_does(
    method: str, trained: Path, data: Path, tmp_path: Path
) -> None:
    ours = recipe(method=method, min_examples=50)
    calibrate(ours, data, trained, tmp_path)
    maps, measured, ratios = (read(tmp_path / f"{name}.json") for name in ("maps", "quality", "ratios"))
    examples = Examples.load(ours, data / "examples")
    test = examples.part("test")
    model = calibrated_ranker(ours, "standard", data, trained / "checkpoint.pt", tmp_path / "maps.json")
    served = predict(model, examples, test)
    expected = quality(ours.labels, examples.arrays["labels"][test], served)["cvr"]
    uncalibrated = read(trained / "quality.json")["cvr"]
    for name, value in expected.items():
        assert measured["cvr"][name] == pytest.approx(value, abs=1e-5)
    if method == "none":
        assert (maps, set(measured["cvr"])) == ([], set(expected))
    else:
        assert [m["row"] for m in maps] == [None, 2, 3, 4]
        for name in ("auc", "log_loss", "calibration", "ece"):
            assert measured["cvr"][f"uncalibrated_{name}"] == pytest.approx(uncalibrated[name], abs=1e-6)
    # Places 1 to 3 are whole numbers: the vocabulary knows what they are called. The default one is in the recipe.
    assert [r["scenario"] for r in ratios] == [None, "1", "id 2", "id 3"]
    assert ratios[0]["predicted"] / ratios[0]["positives"] == pytest.approx(measured["cvr"]["calibration"], rel=1e-6)
    assert sum(r["examples"] for r in ratios[1:]) == ratios[0]["examples"] == len(test)


def test_an_overconfident_model_is_made_honest(trained: Path, data: Path, tmp_path: Path) -> None:
    """Logits tripled and shifted by 1: the maps of the validation part put the test part right."""
    worse = tmp_path / "worse"
    worse.mkdir()
    for part in ("validation", "test"):
        np.save(worse / f"logits.{part}.npy", 3 * np.load(trained / f"logits.{part}.npy") + 1)
    for method in ("platt", "isotonic"):
        ours = recipe(method=method, min_examples=50, by_scenario=False)
        calibrate(ours, data, worse, tmp_path / method)
        found = read(tmp_path / method / "quality.json")["cvr"]
        assert found["uncalibrated_ece"] > 2 * found["ece"]
        assert found["log_loss"] < found["uncalibrated_log_loss"] - 0.1
        assert abs(found["calibration"] - 1) < 0.05
        assert found["auc"] == pytest.approx(found["uncalibrated_auc"], abs=1e-9)  # the order is what it was


def test_raw_ids_of_rows(data: Path) -> None:
    tables = Tables.load(recipe(), data / "vocabularies")
    assert [tables.raw("place", row) for row in (0, 1, 2, 3, 4)] == [None, None, 1, 2, 3]


def test_a_map_is_read_as_it_was_written(trained: Path, data: Path, tmp_path: Path) -> None:
    calibrate(recipe(method="isotonic", min_examples=50), data, trained, tmp_path)
    maps = [LabelMap(**m) for m in read(tmp_path / "maps.json")]
    assert all(len(m.knots) == len(m.bends) >= 1 for m in maps)
