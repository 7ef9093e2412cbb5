"""The router's model: its arithmetic, and files that must not be used."""

import json
from pathlib import Path

import numpy as np
import pytest

from triton_ads.routing.gain import GainError, GainModel, GainParameters

PARAMETERS = GainParameters(
    bias=0.5, features=("events", "hour=3"), mean=(2.0, 0.25), std=(4.0, 0.5), weight=(0.5, -1.0)
)


def test_worked() -> None:
    """(6 - 2) / 4 x 0.5 - (1 - 0.25) / 0.5 + 0.5 = 0.5 - 1.5 + 0.5."""
    found = GainModel(PARAMETERS)(np.array([[6.0, 1.0], [2.0, 0.25]], np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [-0.5, 0.5], rtol=1e-6)


def test_no_requests() -> None:
    assert GainModel(PARAMETERS)(np.zeros((0, 2), np.float32)).shape == (0,)


def test_a_file_is_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "gain.json").write_text(PARAMETERS.model_dump_json())
    model = GainModel.load(tmp_path / "gain.json", ["events", "hour=3"])
    x = np.array([[1.0, 0.0]], np.float32)
    assert model(x) == GainModel(PARAMETERS)(x)


@pytest.mark.parametrize(
    ("change", "features", "message"),
    [
        ({}, ["events"], "2 features found, 1 needed; different: hour=3"),
        ({}, ["hour=3", "events"], "2 features found, 2 needed; different: their order"),
        ({"std": [4.0, 0.0]}, ["events", "hour=3"], "std must be positive"),
        ({"weight": [1.0]}, ["events", "hour=3"], "lengths must agree"),
        ({"version": 2}, ["events", "hour=3"], "version: Input should be 1"),
        ({"more": 2}, ["events", "hour=3"], "more: Extra inputs"),
        ({"bias": None}, ["events", "hour=3"], "bias: Input should be a valid number"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, change: dict[str, object], features: list[str], message: str) -> None:
    path = tmp_path / "gain.json"
    path.write_text(json.dumps({**PARAMETERS.model_dump(), **change}))
    with pytest.raises(GainError, match=f"gain.json: .*{message}"):
        GainModel.load(path, features)


def test_no_file_and_no_json(tmp_path: Path) -> None:
    with pytest.raises(GainError, match="No such file"):
        GainModel.load(tmp_path / "gain.json", [])
    (tmp_path / "gain.json").write_text("{")
    with pytest.raises(GainError, match="Invalid JSON"):
        GainModel.load(tmp_path / "gain.json", [])
