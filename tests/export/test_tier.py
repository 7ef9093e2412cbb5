"""A tier from model to checked graphs."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.support.recipes import tiny_recipe
from triton_ads.export.onnx_session import open_session, run_session
from triton_ads.export.tier import export_tier, with_edges
from triton_ads.manifest import TierManifest
from triton_ads.models import build_model
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe
from triton_ads.split import SplitMismatchError

ROWS = {"user": 20, "item": 30, "place": 4, "zip": 18}
HYFORMER = {"token_dim": 20, "tokens": 3, "sequence_hidden": 8, "query_hidden": 8, "mixer_hidden": 8, "expert_width": 8}


def recipe() -> Recipe:
    return tiny_recipe(
        heads={"by": "scenarios", "scenarios": [1, 2]},
        tiers={"standard": {"model": "hyformer", "config": HYFORMER}},
    )


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path, TierManifest]:
    torch.manual_seed(0)
    ranker = build_model(recipe(), "standard", ROWS).eval()
    folder = tmp_path_factory.mktemp("tier")
    quality = {"cvr": {"auc": 0.5}}
    return ranker, folder, export_tier(recipe(), "standard", ranker, example_inputs(recipe(), ROWS, 6), quality, folder)


def test_every_form_gives_the_models_probabilities(tier: tuple[nn.Module, Path, TierManifest]) -> None:
    _, _, manifest = tier
    assert set(manifest.parity) == {"row_independence", "split", "onnx_row", "onnx_parts"}
    assert all(0 <= difference <= 1e-5 for difference in manifest.parity.values())


def test_served_graphs_rank_many_users_at_once(tier: tuple[nn.Module, Path, TierManifest]) -> None:
    """Users 0..4 in one batch, tiles of user 3, 0, 3: each as the row-wise model scores it."""
    ranker, folder, _ = tier
    inputs = example_inputs(recipe(), ROWS, 5, seed=7)
    users = {n: t for n, t in inputs.items() if n in ("user_ids", "user_dense", "sequence_ids")}
    item_ids = example_inputs(recipe(), ROWS, 6, seed=8)["item_ids"]
    state = run_session(open_session(folder / "user.onnx"), {n: t.numpy() for n, t in users.items()})
    of_tile = torch.tensor([3, 0, 3])
    scores = run_session(
        open_session(folder / "item.onnx"),
        {"state": state, "user_of_tile": of_tile.numpy(), "item_ids": item_ids.reshape(3, 2, -1).numpy()},
    )
    rows = of_tile.repeat_interleave(2)
    with torch.no_grad():
        expected = torch.sigmoid(ranker(item_ids=item_ids, **{n: t[rows] for n, t in users.items()}))
    torch.testing.assert_close(torch.from_numpy(scores).reshape(6, 1), expected, rtol=0, atol=1e-5)


def test_manifest_tells_layout_cost_and_share(tier: tuple[nn.Module, Path, TierManifest]) -> None:
    ranker, folder, manifest = tier
    assert manifest.state_size == sum(entry.size for entry in manifest.state)
    offsets = [entry.offset for entry in manifest.state]
    assert offsets == [sum(entry.size for entry in manifest.state[:i]) for i in range(len(offsets))]
    assert manifest.parameters == sum(p.numel() for p in ranker.parameters())
    assert manifest.cost.tile_ms > 0
    assert manifest.quality == {"cvr": {"auc": 0.5}}
    counted = json.loads((folder / "split.json").read_text())
    assert counted["unshared"] == []
    assert counted["flops_item"] == manifest.flops_item < counted["flops_row"]
    assert {path.name for path in folder.iterdir()} == {"user.onnx", "item.onnx", "split.json"}  # its tables are small


def test_a_model_that_mixes_rows_is_not_exported(tmp_path: Path) -> None:
    class Centred(nn.Module):
        def forward(self, user_ids: Tensor, item_ids: Tensor, **others: Tensor) -> Tensor:
            scores = (user_ids.sum(1, keepdim=True) + item_ids.sum(1, keepdim=True)).float() / 100
            return scores - scores.mean(0)

    with pytest.raises(SplitMismatchError, match="not row-wise"):
        export_tier(recipe(), "standard", Centred(), example_inputs(recipe(), ROWS, 6), {}, tmp_path)


def test_edges_follow_the_samples() -> None:
    samples = example_inputs(recipe(), ROWS, 6)
    edged = with_edges(samples)
    assert torch.equal(edged["sequence_ids"][:6], samples["sequence_ids"])
    assert not edged["sequence_ids"][6].any()
    assert edged["user_ids"][9].tolist() == [-1, 2**40, -1]
    assert edged["item_ids"][8].tolist() == [1, 1, 1]
