"""The whole build of a small recipe on the real data."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from triton_ads.cli import main
from triton_ads.data import Examples
from triton_ads.export.onnx_session import open_session, run_session
from triton_ads.manifest import Manifest
from triton_ads.models.calibration import LabelMap
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.stages.export import samples
from triton_ads.recipe import Recipe
from triton_ads.training import new_model
from triton_ads.training.calibrate import apply_maps

ROOT = Path(__file__).parents[2]
TINY = str(ROOT / "tests" / "recipes" / "tiny.yaml")


def test_the_release_is_whole(built: Layout, tiny: Recipe) -> None:
    manifest = Manifest.load(built.release)
    assert manifest.recipe == tiny
    assert set(manifest.tiers) == {"standard", "high"}
    for tier, found in manifest.tiers.items():
        assert found.quality == json.loads((built.work("calibrate", tier) / "quality.json").read_text())
        assert max(found.parity.values()) <= 1e-5
        assert found.state_size > 0
    assert (built.repository / "rank" / "1" / "release").resolve() == built.release.resolve()


@pytest.mark.parametrize("tier", ["standard", "high"])
def test_the_release_scores_as_the_trained_and_calibrated_model(built: Layout, tiny: Recipe, tier: str) -> None:
    """Real test examples: each its own user with one candidate, through the two graphs and through the checkpoint."""
    model = new_model(tiny, tier, built.work("data"))
    model.load_state_dict(torch.load(built.work("train", tier) / "checkpoint.pt", weights_only=True))
    inputs = samples(Examples.load(tiny, built.work("data") / "examples"))
    with torch.no_grad():
        logit_MK = model.eval()(**inputs).numpy()
    daypart_M = inputs["user_ids"][:, [c.feature for c in tiny.id_columns("user", "context")].index("daypart")]
    maps = json.loads((built.release / "tiers" / tier / "maps.json").read_text())
    assert {m["row"] for m in maps} > {None}, "some scenario has a map of its own"
    mapped_MK = apply_maps(tiny.labels, [LabelMap(**m) for m in maps], logit_MK, daypart_M.numpy())
    expected_MK = 1 / (1 + np.exp(-mapped_MK))
    assert np.abs(mapped_MK - logit_MK).max() > 0.01, "the maps do something"
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    folder = built.release / "tiers" / tier
    state = run_session(open_session(folder / "user.onnx"), arrays)
    items = {name: value[:, None] for name, value in arrays.items() if name.startswith("item")}
    tiles = {"state": state, "user_of_tile": np.arange(len(state)), **items}
    scores_MPK = run_session(open_session(folder / "item.onnx"), tiles)
    # float32 in another order of summation: the build's own bound.
    np.testing.assert_allclose(scores_MPK[:, 0], expected_MK, atol=1e-5, rtol=0)
    assert expected_MK.std(axis=0).min() > 1e-4  # rows that all score alike would prove nothing


def test_samples_are_of_several_users_and_some_have_no_history(built: Layout, tiny: Recipe) -> None:
    rows = samples(Examples.load(tiny, built.work("data") / "examples"))
    assert len(rows["user_ids"]) >= 16
    # 86 % of the test part are users whom training never saw, and the id alone would make them one.
    assert len(torch.unique(rows["user_dense"], dim=0)) >= 8
    assert (rows["sequence_ids"] == 0).all(dim=1).any()
    assert (rows["sequence_ids"] != 0).all(dim=1).any()


def test_a_second_build_runs_nothing_and_takes_no_pytorch(built: Layout) -> None:
    program = (
        "import sys; from triton_ads.cli import main\n"
        f"status = main(['build', '--recipe', {TINY!r}, '--var', {str(built.var)!r}])\n"
        "print('torch' in sys.modules, status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert sum("skipped, nothing it depends on has changed" in line for line in lines) == 10
    assert lines[-1] == "False 0"


def test_a_stage_file_of_build_runs_its_stage_alone(built: Layout) -> None:
    command = [sys.executable, ROOT / "build" / "11_release.py", "--recipe", TINY, "--var", built.var]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[1/1] release: skipped, nothing it depends on has changed\n"


def test_a_damaged_release_is_written_again(built: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    var = tmp_path / "var"
    shutil.copytree(built.var, var, symlinks=True)
    release = Layout(var, "tiny").release.resolve()
    graph = release / "tiers" / "high" / "item.onnx"
    whole = graph.read_bytes()
    graph.write_bytes(whole[:100])
    assert main(["build", "--recipe", TINY, "--var", str(var)]) == 0
    assert "release: started (output releases/" in capsys.readouterr().out
    assert graph.read_bytes() == whole
    Manifest.load(release)


def test_stage_files_are_the_stages_in_their_order() -> None:
    files = sorted(path.name for path in (ROOT / "build").glob("*.py"))
    stages = ("data", "check", "train", "baselines", "calibrate", "export", "router")
    stages += ("identifiers", "generator", "pack", "release", "repository")
    assert files == [f"{number:02d}_{stage}.py" for number, stage in enumerate(stages, start=1)]
