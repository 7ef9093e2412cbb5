"""The calibration stage of the build: maps of a tier's logits, fitted on the validation part, judged on the test's."""

# Legend: n examples, K labels.

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from triton_ads.data.examples import Examples
from triton_ads.data.split import Part
from triton_ads.features.encoder import scenario_rows
from triton_ads.features.ids import raw_id
from triton_ads.features.vocabulary import Tables
from triton_ads.manifest import PredictedOverActual
from triton_ads.models.calibration import Calibrated, LabelMap, map_of
from triton_ads.recipe import Recipe
from triton_ads.training.calibrate_fit import Curve, isotonic, platt, sigmoid
from triton_ads.training.measures import quality
from triton_ads.training.train import logits_file, new_model, write_quality

_METHODS: dict[str, Callable[..., Curve]] = {"platt": platt, "isotonic": isotonic}
#: What is measured before the maps as well.
_BEFORE = ("auc", "log_loss", "calibration", "ece")


def calibrate(recipe: Recipe, data_folder: Path, trained: Path, folder: Path) -> None:
    """Fit and judge the maps of a tier. Writes into `folder`:

        maps.json       the maps, in the form of LabelMap; none for method none
        quality.json    label -> measure -> value on the test part, of what is served; `uncalibrated_...`: without maps
        ratios.json     predicted over actual on the test part, in the form of PredictedOverActual

    Args:
        data_folder: what `triton_ads.data.prepare` wrote.
        trained: what `triton_ads.training.train` wrote for the tier.
    """
    examples = Examples.load(recipe, data_folder / "examples")
    maps = fit_maps(recipe, *_outcomes(examples, trained, "validation"))
    logit_nK, label_nK, row_n = _outcomes(examples, trained, "test")
    mapped_nK = apply_maps(recipe.labels, maps, logit_nK, row_n)
    found = quality(recipe.labels, label_nK, mapped_nK)
    if maps:
        before = quality(recipe.labels, label_nK, logit_nK)
        for label, measures in found.items():
            measures |= {f"uncalibrated_{name}": before[label][name] for name in _BEFORE}
    ratios = measure_ratios(recipe, sigmoid(mapped_nK), label_nK, row_n, _names(recipe, data_folder))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "maps.json").write_text(json.dumps([asdict(m) for m in maps], indent=1) + "\n")
    write_quality(found, folder / "quality.json")
    (folder / "ratios.json").write_text(json.dumps([r.model_dump() for r in ratios], indent=1) + "\n")


def calibrated_ranker(recipe: Recipe, tier: str, folder: Path, checkpoint: Path, maps: Path) -> nn.Module:
    """The tier's trained model behind its maps, as it is served: logits [M, K], in evaluation mode.

    Args:
        folder: with the `vocabularies/` that it was trained with: the data stage's, or a release.
        checkpoint: the file of `triton_ads.training.train`.
        maps: the file of `calibrate`.
    """
    ranker = new_model(recipe, tier, folder)
    ranker.load_state_dict(torch.load(checkpoint, weights_only=True))
    found = _load_maps(maps)
    if not found:
        return ranker.eval()
    if recipe.scenario is None:
        return Calibrated(ranker, recipe, found).eval()
    tables = Tables.load(recipe, folder / "vocabularies")
    (default_row,) = scenario_rows(recipe, tables, [recipe.scenario.default])
    return Calibrated(ranker, recipe, found, tables.table_rows[_scenario_table(recipe)], default_row).eval()


def served_logits(examples: Examples, trained: Path, calibrated: Path, part: Part) -> NDArray:
    """Logits float64 [n, K] of a part's examples as the tier is served: those of training behind the maps.

    Args:
        trained, calibrated: what `triton_ads.training.train` and `calibrate` wrote for the tier.
    """
    logit_nK, _, row_n = _outcomes(examples, trained, part)
    return apply_maps(examples.recipe.labels, _load_maps(calibrated / "maps.json"), logit_nK, row_n)


def _load_maps(path: Path) -> list[LabelMap]:
    return [
        LabelMap(**{**m, "knots": tuple(m["knots"]), "bends": tuple(m["bends"])}) for m in json.loads(path.read_text())
    ]


def _outcomes(examples: Examples, trained: Path, part: Part) -> tuple[NDArray, NDArray, NDArray]:
    """Logits float64 [n, K], labels [n, K] and the row of the scenario [n] (zeros without one) of a part."""
    positions = examples.part(part)
    logit_nK = np.load(logits_file(trained, part), allow_pickle=False).astype(np.float64)
    scenario = examples.recipe.scenario
    if scenario is None:
        row_n = np.zeros(len(positions), np.int64)
    else:
        column = [c.feature for c in examples.recipe.id_columns("context")].index(scenario.feature)
        row_n = examples.arrays["context_rows"][positions, column]
    return logit_nK, examples.arrays["labels"][positions].astype(np.float64), row_n


def fit_maps(recipe: Recipe, logit_nK: NDArray, label_nK: NDArray, row_n: NDArray) -> list[LabelMap]:
    """A map of every label over all scenarios, and one for each scenario that has enough positives and negatives."""
    settings = recipe.calibration
    if settings.method == "none":
        return []
    rows = [None, *np.unique(row_n).tolist()] if settings.by_scenario and recipe.scenario is not None else [None]
    maps = []
    for k, label in enumerate(recipe.labels):
        for row in rows:
            of_n = np.ones(len(row_n), np.bool_) if row is None else row_n == row
            positives = int(label_nK[of_n, k].sum())
            if min(positives, int(of_n.sum()) - positives) >= settings.min_examples:
                curve = _METHODS[settings.method](logit_nK[of_n, k], label_nK[of_n, k])
                maps.append(LabelMap(label, row, *curve))
    return maps


def apply_maps(labels: Sequence[str], maps: Sequence[LabelMap], logit_nK: NDArray, row_n: NDArray) -> NDArray:
    """Calibrated logits float64 [n, K], as the exported graph computes them."""
    mapped_nK = np.empty(logit_nK.shape)
    for row in np.unique(row_n).tolist():
        of_n = row_n == row
        for k, label in enumerate(labels):
            mapped_nK[of_n, k] = map_of(maps, label, row)(logit_nK[of_n, k])
    return mapped_nK


def measure_ratios(
    recipe: Recipe, probability_nK: NDArray, label_nK: NDArray, row_n: NDArray, name: Callable[[int], str]
) -> list[PredictedOverActual]:
    """Predicted over actual of every label: over all scenarios first, then in each."""
    rows = [None, *np.unique(row_n).tolist()] if recipe.scenario is not None else [None]
    parts = [(row, np.ones(len(row_n), np.bool_) if row is None else row_n == row) for row in rows]
    return [
        PredictedOverActual(
            label=label,
            scenario=None if row is None else name(row),
            examples=int(of_n.sum()),
            positives=int(label_nK[of_n, k].sum()),
            predicted=float(probability_nK[of_n, k].sum()),
        )
        for k, label in enumerate(recipe.labels)
        for row, of_n in parts
    ]


def _names(recipe: Recipe, data_folder: Path) -> Callable[[int], str]:
    """What people call the scenario of a row: a vocabulary knows a string by its hash, the recipe some of them."""
    if recipe.scenario is None:
        return str
    table, tables = _scenario_table(recipe), Tables.load(recipe, data_folder / "vocabularies")
    named = [recipe.scenario.default, *recipe.heads.scenarios]
    rows = tables.rows(table, np.array([raw_id(name) for name in named], np.int64)).tolist()
    known = {row: str(name) for row, name in zip(rows, named, strict=True)}

    def name(row: int) -> str:
        raw = tables.raw(table, row)
        return known.get(row, f"row {row}" if raw is None else f"id {raw}")

    return name


def _scenario_table(recipe: Recipe) -> str:
    (table,) = [
        str(f.table) for f in recipe.features if recipe.scenario is not None and f.name == recipe.scenario.feature
    ]
    return table
