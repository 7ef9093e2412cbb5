"""A model of one's own through the export: several tables, each once in the file of both parts; what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

from tests.models.test_own import recipe
from triton_ads.export.onnx_session import open_session, run_session
from triton_ads.export.tier import export_tier
from triton_ads.models import build_model
from triton_ads.models.example import example_inputs
from triton_ads.split import SplitError, SplitMismatchError

ROWS = {"user": 300, "item": 500, "place": 4, "zip": 18}
QUALITY = {"cvr": {"auc": 0.5}}
DIN = """
import torch
from torch import nn

class DIN(nn.Module):
    def __init__(self, rows, width=4):
        super().__init__()
        self.user = nn.Embedding(rows["user"], width)
        self.zip = nn.Embedding(rows["zip"], width)
        self.item = nn.Embedding(rows["item"], width, padding_idx=0)
        self.attention = nn.Sequential(nn.Linear(4 * width, 8), nn.PReLU(), nn.Linear(8, 1))
        self.head = nn.Sequential(nn.Linear(6 * width + 1, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, user_id, zip_code, activity, item_id, similar, seen, bought):
        ad, near = self.item(item_id), self.item(similar).mean(dim=1)
        return self.head(torch.cat([
            self.user(user_id), self.zip(zip_code), activity.unsqueeze(-1), ad, near,
            self.interest(ad, seen[..., 0]), self.interest(ad, bought[..., 0]),
        ], dim=-1)).squeeze(-1)

    def interest(self, ad, history):
        events = self.item(history)
        query = ad.unsqueeze(1).expand_as(events)
        weight = self.attention(torch.cat([query, events, query - events, query * events], dim=-1))
        return (weight * (history != 0).unsqueeze(-1) * events).sum(dim=1)
"""


def samples(folder: Path, rows: int, seed: int = 0) -> dict[str, Tensor]:
    return example_inputs(recipe(folder, DIN, "DIN"), ROWS, rows, seed)


def built(folder: Path, text: str = DIN, name: str = "DIN") -> nn.Module:
    torch.manual_seed(0)
    return build_model(recipe(folder, text, name), "standard", ROWS).eval()


def test_a_din_with_three_tables(tmp_path: Path) -> None:
    ranker = built(tmp_path)
    folder = tmp_path / "tier"
    manifest = export_tier(recipe(tmp_path, DIN, "DIN"), "standard", ranker, samples(tmp_path, 6), QUALITY, folder)
    assert manifest.model == "own.py:DIN"
    assert max(manifest.parity.values()) <= 1e-5
    assert manifest.flops_user > 0

    # Users 2, 0 and 2 again, two candidates each, with ids that no table has.
    inputs = samples(tmp_path, 6, seed=3)
    inputs["item_ids"][0], inputs["user_ids"][2, 0], inputs["sequence_ids"][0, 0] = 2**40, -7, 500
    users = {name: inputs[name][:3].numpy() for name in ("user_ids", "user_dense", "sequence_ids")}
    tiles = {"user_of_tile": np.array([2, 0, 2]), "item_ids": inputs["item_ids"].reshape(3, 2, -1).numpy()}
    state = run_session(open_session(folder / "user.onnx"), users)
    scores = run_session(open_session(folder / "item.onnx"), {"state": state, **tiles})
    rows = torch.tensor([2, 2, 0, 0, 2, 2])
    of_row = {name: torch.from_numpy(value)[rows] for name, value in users.items()}
    with torch.no_grad():
        expected = torch.sigmoid(ranker(item_ids=inputs["item_ids"], **of_row))
    # float32 in another order of summation: the build's own bound.
    np.testing.assert_allclose(scores.reshape(6, 1), expected, atol=1e-5, rtol=0)


def test_both_parts_map_each_table_once(tmp_path: Path) -> None:
    """user 300 x 4 and item 500 x 4 floats are tables of the file; zip, 18 x 4, is too small and stays in the graph."""
    ranker = built(tmp_path)
    folder = tmp_path / "tier"
    export_tier(recipe(tmp_path, DIN, "DIN"), "standard", ranker, samples(tmp_path, 6), QUALITY, folder)
    placed = {}
    for part in ("user", "item"):
        graph = onnx.load(folder / f"{part}.onnx", load_external_data=False).graph
        found = [{e.key: e.value for e in t.external_data} for t in graph.initializer if t.external_data]
        placed[part] = {(int(e["offset"]), int(e["length"])) for e in found}
    assert sorted(length for _, length in placed["user"]) == [300 * 16, 500 * 16]
    assert placed["item"] < placed["user"]
    assert [length for _, length in placed["item"]] == [500 * 16]
    content = (folder / "table.bin").read_bytes()
    assert len(content) <= 2 * 4096 + 500 * 16  # nothing twice
    (item,) = placed["item"]
    weight = np.frombuffer(content[item[0] : sum(item)], np.float32).reshape(500, 4)
    np.testing.assert_array_equal(weight, ranker.get_parameter("model.item.weight").detach().numpy())


def file(body: str, arguments: str = "user_id, item_id, activity") -> str:
    return f"""
import torch
from torch import nn

class DIN(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.user, self.item = nn.Embedding(rows["user"], 4), nn.Embedding(rows["item"], 4)
        self.linear = nn.Linear(4, 1)

    def forward(self, {arguments}):
        {body}
"""


PRODUCT = "x = self.user(user_id) * self.item(item_id)"
WRONG: dict[str, tuple[str, type[Exception], str]] = {
    "rows that know of each other": (
        f"{PRODUCT}; return self.linear(x - x.mean(0))",
        SplitMismatchError,
        r"not row-wise: .*; rows first meet at .*own\.py:12: aten\.mean",
    ),
    "chance": (
        f"{PRODUCT}; return self.linear(x + torch.randn(4))",
        SplitMismatchError,
        r"not row-wise: .*; rows first meet at .*own\.py:12: aten\.randn",
    ),
    "a branch on all rows": (
        f"{PRODUCT}; return self.linear(x if x.sum() > 0 else -x)",
        SplitMismatchError,
        "not row-wise",
    ),
    "NumPy": (
        f"{PRODUCT}; return self.linear(torch.from_numpy(x.numpy() * 2))",
        SplitError,
        r"own\.py:12: the model cannot be exported with a free batch axis: \.numpy\(\)",
    ),
    "values read": (
        f"{PRODUCT}; return self.linear(torch.stack([torch.tensor(row) for row in x.tolist()]))",
        SplitError,
        r"own\.py:12: the model cannot be exported with a free batch axis",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_served_is_refused(tmp_path: Path, case: str) -> None:
    body, kind, message = WRONG[case]
    text = file(body)
    ranker = built(tmp_path, text)
    with pytest.raises(kind, match=message):
        export_tier(recipe(tmp_path, text, "DIN"), "standard", ranker, samples(tmp_path, 6), QUALITY, tmp_path / "tier")


@pytest.mark.parametrize(
    "body",
    [
        "return self.linear(self.item(item_id)).squeeze(-1)",  # no user at all
        "return self.linear(self.user(user_id) * self.item(item_id))",  # no history, no dense feature
    ],
)
def test_a_model_that_leaves_inputs_out(tmp_path: Path, body: str) -> None:
    text = file(body, "user_id, item_id")
    ranker = built(tmp_path, text)
    folder = tmp_path / "tier"
    manifest = export_tier(recipe(tmp_path, text, "DIN"), "standard", ranker, samples(tmp_path, 6), QUALITY, folder)
    assert max(manifest.parity.values()) <= 1e-5
