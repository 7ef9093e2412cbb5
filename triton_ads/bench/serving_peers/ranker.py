"""The trained row-wise model of a release: as a PyTorch module, and as one ONNX graph."""

import logging
import warnings
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from triton_ads.bench.serving_peers.lookup import Lookup
from triton_ads.bench.serving_peers.naive import ROW_GRAPH
from triton_ads.export.onnx_graph import export_onnx, save_onnx
from triton_ads.export.tier import Probability
from triton_ads.manifest import Manifest
from triton_ads.models.example import example_inputs
from triton_ads.split.positional import Positional
from triton_ads.training.calibrate import calibrated_ranker

# M rows, N candidates, K labels


def load_ranker(release: Path, checkpoint: Path, tier: str) -> nn.Module:
    """The row-wise model with its trained weights: inputs by name -> probabilities float32 [M, K].

    Raises:
        FileNotFoundError: a release holds no checkpoint; the build that made it does.
    """
    if not checkpoint.is_file():
        raise FileNotFoundError(f"{checkpoint}: no such checkpoint; `triton-ads build` with the same --var makes it")
    recipe = Manifest.load(release, verify_files=False).recipe
    ranker = calibrated_ranker(recipe, tier, release, checkpoint, release / "tiers" / tier / "maps.json")
    return Probability(ranker).eval()


def row_inputs(lookup: Lookup, user_id: int, candidates_N: NDArray[np.int64]) -> dict[str, torch.Tensor]:
    """The rows of one request, the user expanded without a copy."""
    user = {name: torch.from_numpy(array) for name, array in lookup.user(user_id).inputs().items()}
    items = {name: torch.from_numpy(array) for name, array in lookup.items(candidates_N).items()}
    rows = {name: tensor.expand(len(candidates_N), -1) for name, tensor in user.items()} | items
    return {name: tensor for name, tensor in rows.items() if tensor.shape[1]}


def export_rows(ranker: nn.Module, release: Path, folder: Path) -> None:
    """Write the model as one graph over rows, `ROW_GRAPH`, and its table into `folder`."""
    manifest = Manifest.load(release, verify_files=False)
    rows = example_inputs(manifest.recipe, manifest.table_rows, 3)
    names = list(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        graph = export_onnx(Positional(ranker, names), list(rows.values()), [{0: "M"}] * len(names), names, ["scores"])
    save_onnx(graph, folder / ROW_GRAPH)
