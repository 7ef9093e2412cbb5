"""The training stage of the build: one tier, from examples to a checkpoint and its quality."""

import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from triton_ads.data.examples import Examples
from triton_ads.data.split import Part
from triton_ads.features.encoder import scenario_rows
from triton_ads.features.vocabulary import Tables
from triton_ads.models import OwnModel, build_model
from triton_ads.models.embedding import Embedding
from triton_ads.recipe import Recipe
from triton_ads.training.fit import fit, predict, training_positions
from triton_ads.training.initialisation import initialise, physical_parts
from triton_ads.training.measures import quality


def train(recipe: Recipe, tier: str, data_folder: Path, folder: Path) -> None:
    """Train a tier on the training part and measure it on the others. Writes into `folder`:

        checkpoint.pt      state dict of `build_model(recipe, tier, ...)`
        quality.json       label -> measure -> value, on the test part
        validation.json    the same on the validation part: what a choice may be based on
        logits.PART.npy    float32 [n, K] of the examples of `validation` and `test`, in time order

    Args:
        data_folder: what `triton_ads.data.prepare` wrote.

    Raises:
        DataError, VocabularyError: `data_folder` is incomplete.
    """
    examples = Examples.load(recipe, data_folder / "examples")
    with torch.random.fork_rng(devices=[]):
        # Models of one's own draw from PyTorch's generator: first values, dropout.
        torch.manual_seed(recipe.training.seed)
        model = new_model(recipe, tier, data_folder)
        if not isinstance(model, OwnModel):  # it starts as its author has it
            table_rows = Tables.load(recipe, data_folder / "vocabularies").table_rows
            initialise(model, recipe.training.seed, physical_parts(recipe, table_rows))
        standardise(model if isinstance(model, OwnModel) else model.get_submodule("embedding"), examples)
        fit(model, examples, recipe.training, f"train {tier}")
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / "checkpoint.pt")
    parts: dict[Part, str] = {"validation": "validation.json", "test": "quality.json"}
    for part, file in parts.items():
        logit_nK = predict(model, examples, examples.part(part))
        np.save(logits_file(folder, part), logit_nK, allow_pickle=False)
        write_quality(_quality(examples, part, logit_nK), folder / file)


def new_model(recipe: Recipe, tier: str, data_folder: Path) -> nn.Module:
    """The tier's model for the vocabularies of `data_folder`, untrained: what a checkpoint is loaded into."""
    tables = Tables.load(recipe, data_folder / "vocabularies")
    rows = scenario_rows(recipe, tables, recipe.heads.scenarios) if recipe.heads.by == "scenarios" else None
    return build_model(recipe, tier, tables.table_rows, rows)


def standardise(inputs: nn.Module, examples: Examples) -> None:
    """Give the dense inputs mean and standard deviation of the training examples, of nothing later."""
    assert isinstance(inputs, Embedding | OwnModel)
    positions = training_positions(examples, examples.recipe.training)
    for name, projection in (("user_dense", inputs.user_dense), ("item_dense", inputs.item_dense)):
        if projection is not None:
            values = examples.arrays[name][positions].astype(np.float64)
            mean, std = (torch.from_numpy(v.astype(np.float32)) for v in (values.mean(axis=0), values.std(axis=0)))
            projection.standardise(mean, std)


def measure(model: nn.Module, examples: Examples, part: Part) -> dict[str, dict[str, float]]:
    """Quality of `model` on a part of the split."""
    return _quality(examples, part, predict(model, examples, examples.part(part)))


def _quality(examples: Examples, part: Part, logit_nK: NDArray[np.float32]) -> dict[str, dict[str, float]]:
    return quality(examples.recipe.labels, examples.arrays["labels"][examples.part(part)], logit_nK)


def logits_file(folder: Path, part: str) -> Path:
    """Where `train` keeps the logits of a part."""
    return folder / f"logits.{part}.npy"


def write_quality(found: dict[str, dict[str, float]], path: Path) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")
