"""Stage `export TIER`: a checkpoint becomes two checked ONNX graphs and the manifest of the tier.

STAGE/graphs/ holds what a release takes over as it is (see triton_ads/export/tier.py), STAGE/tier.json the manifest.
"""

import json
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from triton_ads.data import Examples
from triton_ads.export.tier import export_tier
from triton_ads.manifest import PredictedOverActual
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe
from triton_ads.training.calibrate import calibrated_ranker

#: Users of the test part whose examples are compared, and examples without any history beside them.
USERS, WITHOUT_HISTORY = 16, 4
LEAST = 4  # rows that the checks need; fewer users give several each


def run(recipe: Recipe, layout: Layout, tier: str) -> Sequence[Path]:
    data, calibrated = layout.work("data"), layout.work("calibrate", tier)
    maps = calibrated / "maps.json"
    ranker = calibrated_ranker(recipe, tier, data, layout.work("train", tier) / "checkpoint.pt", maps)
    quality = json.loads((calibrated / "quality.json").read_text())
    ratios = json.loads((calibrated / "ratios.json").read_text())
    rows = samples(Examples.load(recipe, data / "examples"))
    with quiet():
        found = export_tier(recipe, tier, ranker, rows, quality, layout.graphs(tier))
    found = found.model_copy(update={"calibration": tuple(PredictedOverActual(**ratio) for ratio in ratios)})
    shutil.copy(maps, layout.graphs(tier) / maps.name)
    layout.tier_manifest(tier).write_text(found.model_dump_json(indent=1) + "\n")
    return ()


def samples(examples: Examples) -> dict[str, Tensor]:
    """Real rows of every model input: test examples of users spread over the part, and some without any history."""
    test = examples.part("test")
    _, first_of_user = np.unique(examples.arrays["user"][test], return_index=True)
    spread = np.linspace(0, len(first_of_user) - 1, min(USERS, len(first_of_user))).astype(np.int64)
    chosen = np.concatenate([test[first_of_user[spread]], test[_without_history(examples, test)][:WITHOUT_HISTORY]])
    if len(chosen) < LEAST:
        chosen = np.resize(np.concatenate([chosen, test]), LEAST)  # a part of fewer rows is repeated
    return {name: torch.from_numpy(array) for name, array in examples.batch(chosen).inputs.items()}


def _without_history(examples: Examples, positions_n: NDArray[np.int64]) -> NDArray[np.bool_]:
    empty_n = np.full(len(positions_n), bool(examples.recipe.sequences))
    for sequence in examples.recipe.sequences:
        first, end = (examples.arrays[f"{sequence.name}.{part}"][positions_n] for part in ("first", "end"))
        empty_n &= first == end
    return empty_n


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back what PyTorch's exporter says about itself; its errors are raised all the same."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
