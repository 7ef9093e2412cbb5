"""One tier, from a trained model to two checked graphs.

row-wise model -> row independence -> split -> parity in eager -> ONNX -> parity in ONNX Runtime -> cost
"""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from triton_ads.export.cost import measure_cost
from triton_ads.export.onnx_graph import export_onnx, save_onnx
from triton_ads.export.onnx_session import open_session, run_session
from triton_ads.export.parity_bound import TOLERANCE, ParityError
from triton_ads.manifest import CostModel, StateEntry, TierManifest
from triton_ads.recipe import Recipe
from triton_ads.split import Split, check_parity, check_row_independence, split
from triton_ads.split.positional import Positional
from triton_ads.split.report import report

#: The model inputs of a recipe and the side of each (docs/wire.md).
SIDES: dict[str, Literal["user", "item"]] = {
    "user_ids": "user",
    "user_dense": "user",
    "sequence_ids": "user",
    "item_ids": "item",
    "item_dense": "item",
}


class Probability(nn.Module):
    """A ranker's logits as probabilities: what is served."""

    def __init__(self, ranker: nn.Module) -> None:
        super().__init__()
        self.ranker = ranker

    def forward(self, **inputs: Tensor) -> Tensor:
        return torch.sigmoid(self.ranker(**inputs))


def export_tier(
    recipe: Recipe,
    tier: str,
    ranker: nn.Module,
    samples: dict[str, Tensor],
    quality: dict[str, dict[str, float]],
    folder: Path,
) -> TierManifest:
    """Split, export and check one tier; writes user.onnx, item.onnx, table.bin and split.json into `folder`.

    Args:
        ranker: trained; gives logits [M, K].
        samples: 4 real rows or more of every model input; edges (empty histories, unknown ids) are added here.
        quality: label -> measure -> value, for the manifest.

    Raises:
        SplitError, SplitMismatchError, GraphError, ParityError: the model cannot be served as it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = Probability(ranker).eval()
    inputs = with_edges(samples)
    independence = check_row_independence(model, inputs, TOLERANCE)
    parts = split(model, {name: tensor[:3] for name, tensor in inputs.items()}, SIDES)
    parity = {"row_independence": independence, "split": check_parity(model, parts, inputs, TOLERANCE)}
    _export_parts(parts, inputs, folder)
    parity |= _check_graphs(model, parts, inputs, folder)
    counted = report(parts, inputs)
    (folder / "split.json").write_text(json.dumps(counted.as_dict(), indent=1) + "\n")
    return TierManifest(
        model=recipe.tiers[tier].model,
        engine="onnxruntime",
        precision="float32",
        state=tuple(StateEntry(**asdict(entry)) for entry in parts.state),
        state_size=parts.state_size,
        parameters=sum(parameter.numel() for parameter in ranker.parameters()),
        flops_user=counted.flops_user,
        flops_item=counted.flops_item,
        cost=_cost(parts, inputs, folder, recipe.serving.tile),
        parity=parity,
        quality=quality,
    )


def with_edges(samples: dict[str, Tensor]) -> dict[str, Tensor]:
    """The samples, and after them rows of edges: no history, one event, nothing known, ids out of range."""
    edges = {name: tensor[:4].clone() for name, tensor in samples.items()}
    if "sequence_ids" in edges:
        edges["sequence_ids"][0] = 0
        edges["sequence_ids"][1, 1:] = 0
    for name in ("user_ids", "item_ids"):
        edges[name][2] = 1
        edges[name][3] = torch.tensor([-1, 2**40]).repeat(edges[name].shape[1])[: edges[name].shape[1]]
    return {name: torch.cat([samples[name], edges[name]]) for name in samples}


def _export_parts(parts: Split, inputs: dict[str, Tensor], folder: Path) -> None:
    users = [inputs[name][:2] for name in parts.user_inputs]
    user = export_onnx(parts.user, users, [{0: "B"}] * len(users), parts.user_inputs, ["state"])
    tiles, candidates = 3, 4
    items = [
        inputs[name][:1].repeat(tiles * candidates, 1).unflatten(0, (tiles, candidates)) for name in parts.item_inputs
    ]
    with torch.no_grad():
        state = parts.user(*users)
    item = export_onnx(
        parts.item,
        [state, torch.tensor([0, 1, 1]), *items],
        [{0: "B"}, {0: "C"}, *[{0: "C", 1: "P"}] * len(items)],
        ["state", "user_of_tile", *parts.item_inputs],
        ["scores"],
    )
    save_onnx(user, folder / "user.onnx")
    save_onnx(item, folder / "item.onnx")


def _check_graphs(model: nn.Module, parts: Split, inputs: dict[str, Tensor], folder: Path) -> dict[str, float]:
    """Eager, the row-wise graph in ONNX Runtime, and the parts in ONNX Runtime, at shapes that export never saw."""
    names = list(inputs)
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "row.onnx"
        row = export_onnx(
            Positional(model, names), [t[:3] for t in inputs.values()], [{0: "M"}] * len(names), names, ["scores"]
        )
        save_onnx(row, path)
        row_session = open_session(path)
    user_session, item_session = open_session(folder / "user.onnx"), open_session(folder / "item.onnx")

    worst = {"onnx_row": 0.0, "onnx_parts": 0.0}
    rows = len(inputs["item_ids"])
    for users, tiles, candidates in ((1, 1, 1), (1, 2, 7), (rows, rows, 2), (2, 5, 64)):
        generator = np.random.default_rng(rows)
        user_rows_B = generator.integers(0, rows, users)
        user_of_tile_C = generator.integers(0, users, tiles)
        item_rows_CP = generator.integers(0, rows, (tiles, candidates))
        user = {name: inputs[name].numpy()[user_rows_B] for name in parts.user_inputs}
        item = {name: inputs[name].numpy()[item_rows_CP] for name in parts.item_inputs}
        flat = {name: value[np.repeat(user_of_tile_C, candidates)] for name, value in user.items()}
        flat |= {name: value.reshape(tiles * candidates, -1) for name, value in item.items()}
        with torch.no_grad():
            expected = model(**{name: torch.from_numpy(value) for name, value in flat.items()}).numpy()
        state = run_session(user_session, user)
        scores = run_session(item_session, {"state": state, "user_of_tile": user_of_tile_C, **item})
        shape = f"{users} users, {tiles} tiles of {candidates}"
        for form, got in (("onnx_row", run_session(row_session, flat)), ("onnx_parts", scores.reshape(expected.shape))):
            worst[form] = max(worst[form], _difference(f"eager and {form}, {shape}", expected, got))
    return worst


def _cost(parts: Split, inputs: dict[str, Tensor], folder: Path, tile: int) -> CostModel:
    user = {name: inputs[name][:1].numpy() for name in parts.user_inputs}
    item = {name: inputs[name][:1].numpy() for name in parts.item_inputs}
    return measure_cost(open_session(folder / "user.onnx"), open_session(folder / "item.onnx"), user, item, tile)


def _difference(what: str, expected: NDArray[np.float32], got: NDArray[np.float32]) -> float:
    difference = float(np.abs(expected - got).max())
    if not difference <= TOLERANCE:  # also refuses NaN
        raise ParityError(f"{what}: probabilities differ by {difference:.2e}, allowed {TOLERANCE:.0e}")
    return difference
