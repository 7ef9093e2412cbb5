"""The maps inside the graph: values worked by hand, the scenario's choice, both parts of the split, ONNX."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.support.recipes import tiny_recipe
from triton_ads.export.onnx_session import open_session, run_session
from triton_ads.export.tier import SIDES, Probability, export_tier
from triton_ads.models import build_model
from triton_ads.models.calibration import Calibrated, LabelMap
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe
from triton_ads.split import split

ROWS = {"user": 20, "item": 30, "place": 5, "zip": 18}
DEFAULT_ROW = 3  # of place 1, the recipe's scenario.default
PLACE = 2  # its column among user_id, zip_code, place
#: f(x) = x / 2 + 1 + relu(x - 0) - 1.25 relu(x - 2): slope 1/2, then 3/2, then 1/4.
CURVE = ("cvr", None, 0.5, 1.0, (0.0, 2.0), (1.0, -1.25))


class Given(nn.Module):
    """Its logits are the first item id and its double."""

    def forward(self, user_ids: Tensor, item_ids: Tensor, **_: Tensor) -> Tensor:
        x_M = item_ids[:, 0].to(torch.float32) + 0 * user_ids[:, 0]
        return torch.stack([x_M, 2 * x_M], dim=1)


def recipe() -> Recipe:
    return tiny_recipe(labels=["cvr", "dcvr"])


def logits(module: nn.Module, x: list[int], rows: list[int] | None = None) -> list[list[float]]:
    user_ids = torch.zeros(len(x), 3, dtype=torch.int64)
    user_ids[:, PLACE] = torch.tensor(rows or [2] * len(x))
    return module(user_ids=user_ids, item_ids=torch.tensor(x)[:, None].repeat(1, 3)).tolist()


def test_a_curve_worked() -> None:
    """And of a label without a map the logits as they are."""
    module = Calibrated(Given(), recipe(), [LabelMap(*CURVE)], ROWS["place"], DEFAULT_ROW)
    x = [-2, 0, 1, 2, 6]
    worked = [0.0, 1.0, 2.5, 4.0, 5.0]
    assert logits(module, x) == [[y, 2.0 * v] for y, v in zip(worked, x, strict=True)]
    assert LabelMap(*CURVE)(np.array(x, np.float32)).tolist() == worked


def test_the_scenario_chooses_and_what_it_has_not_is_everyones() -> None:
    maps = [
        LabelMap("cvr", None, 1.0, 10.0),
        LabelMap("cvr", 2, 2.0, 20.0),
        LabelMap("cvr", DEFAULT_ROW, 3.0, 30.0, (0.0,), (1.0,)),
        LabelMap("dcvr", 4, 0.5, 0.0),
    ]
    module = Calibrated(Given(), recipe(), maps, ROWS["place"], DEFAULT_ROW)
    rows = [2, 3, 4, 0, 1, -1, 5, 2**40]
    # x = 1: 2 * 1 + 20; 3 * 1 + 30 + relu(1); 1 + 10. PAD, OOV and what is no row are the default scenario's.
    default = [34.0, 2.0]
    assert logits(module, [1] * 8, rows) == [[22.0, 2.0], default, [11.0, 1.0], *[default] * 5]


def test_without_a_scenario_there_is_one_map() -> None:
    plain = tiny_recipe(labels=["cvr", "dcvr"], scenario=None)
    assert logits(Calibrated(Given(), plain, [LabelMap("dcvr", None, 1.0, -1.0)]), [3]) == [[3.0, 5.0]]
    with pytest.raises(ValueError, match=r"maps of scenario rows \[2\] found, rows in \[2, 0\) allowed"):
        Calibrated(Given(), plain, [LabelMap("cvr", 2, 1.0, 0.0)])


@pytest.mark.parametrize("row", [0, 1, 5])
def test_a_map_of_no_row_is_refused(row: int) -> None:
    with pytest.raises(ValueError, match=rf"maps of scenario rows \[{row}\] found, rows in \[2, 5\) allowed"):
        Calibrated(Given(), recipe(), [LabelMap("cvr", row, 1.0, 0.0)], ROWS["place"], DEFAULT_ROW)


@pytest.mark.parametrize("model", ["wukong", "hyformer"])
def test_served_graphs_hold_the_maps(model: str, tmp_path: Path) -> None:
    """The build's own checks pass, the maps' numbers are the user's, and each scenario gets its own."""
    settings = {"hyformer": {"token_dim": 20, "tokens": 3, "sequence_hidden": 8, "mixer_hidden": 8, "expert_width": 8}}
    ours = tiny_recipe(
        labels=["cvr", "dcvr"], tiers={"standard": {"model": model, "config": settings.get(model, {"token_dim": 8})}}
    )
    maps = [
        LabelMap("cvr", None, 0.5, -1.0),
        LabelMap("cvr", 2, 1.0, 0.5, (-0.2, 0.1, 0.3), (-0.6, 1.0, -0.4)),
        LabelMap("dcvr", DEFAULT_ROW, 2.0, 0.25),
    ]
    torch.manual_seed(0)
    ranker = build_model(ours, "standard", ROWS).eval()
    rows = example_inputs(ours, ROWS, 12)
    module = Calibrated(ranker, ours, maps, ROWS["place"], DEFAULT_ROW)
    plain = split(Probability(ranker).eval(), {name: tensor[:3] for name, tensor in rows.items()}, SIDES)
    found = export_tier(ours, "standard", module, rows, {}, tmp_path)
    assert max(found.parity.values()) <= 1e-5
    # slope, shift, three knots and three bends of two labels
    assert found.state_size == plain.state_size + 2 * (2 + 3 + 3)
    assert found.parameters == sum(parameter.numel() for parameter in ranker.parameters())

    with torch.no_grad():
        logits_MK = ranker(**rows).numpy()
    expected_MK = logits_MK.copy()
    for m, row in enumerate(rows["user_ids"][:, PLACE].tolist()):
        row = row if row >= 2 else DEFAULT_ROW
        cvr, dcvr = (maps[1] if row == 2 else maps[0]), (maps[2] if row == DEFAULT_ROW else None)
        expected_MK[m, 0] = cvr(logits_MK[m, :1])[0]
        expected_MK[m, 1] = dcvr(logits_MK[m, 1:])[0] if dcvr else logits_MK[m, 1]
    assert len(set(rows["user_ids"][:, PLACE].tolist())) >= 4
    arrays = {name: tensor.numpy() for name, tensor in rows.items()}
    users = {name: array for name, array in arrays.items() if not name.startswith("item")}
    state = run_session(open_session(tmp_path / "user.onnx"), users)
    items = {name: array[:, None] for name, array in arrays.items() if name.startswith("item")}
    tiles = {"state": state, "user_of_tile": np.arange(12), **items}
    scores_MK = run_session(open_session(tmp_path / "item.onnx"), tiles)[:, 0]
    # float32 in another order of summation: the build's own bound.
    np.testing.assert_allclose(scores_MK, 1 / (1 + np.exp(-expected_MK)), rtol=0, atol=1e-5)
