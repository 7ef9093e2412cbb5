"""`bench evidence`: what parts of a ranker are worth, where the best reachable prediction is known.

For each seed a synthetic world is made and every contender is trained on it as the build trains a tier: same examples,
same settings, same seed. Besides, without training: the predictions of those who know the world (data/synthetic).
Compare contenders within a seed: worlds differ.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from triton_ads.bench.evidence_contenders import CONTENDERS, FM, LR, Contender
from triton_ads.bench.evidence_plot import save_plot
from triton_ads.bench.evidence_report import BEST, COLD, HIDDEN, EvidenceReport, Score
from triton_ads.data import Examples
from triton_ads.data.prepare import prepare
from triton_ads.data.truth import load_truth
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe, load_recipe
from triton_ads.recipe.data import Synthetic
from triton_ads.training import train
from triton_ads.training.baselines import SETTINGS, FactorizationMachine
from triton_ads.training.fit import fit, predict
from triton_ads.training.measures import auc, log_loss
from triton_ads.training.train import logits_file

RECIPE = Path("build/recipes/synthetic.yaml")
#: A world too small to learn much from: to see that everything runs.
QUICK = {"users": 1_000, "items": 200, "events": 6_000}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", type=Path, default=RECIPE, help="default: %(default)s")
    parser.add_argument(
        "--seeds", type=int, default=3, help="worlds, each with its own training (default: %(default)s)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the figures, as SVG")
    parser.add_argument("--quick", action="store_true", help="a small world and two seeds, to see that it runs")


def run(args: argparse.Namespace) -> EvidenceReport:
    """Train everything; see `configure`.

    Raises:
        ValueError: the recipe's data is no synthetic world.
    """
    recipe = load_recipe(args.recipe)
    if not isinstance(recipe.data, Synthetic):
        raise ValueError(f"{args.recipe}: data.source is {recipe.data.source}; only a synthetic world is known")
    # One thread: the same figures on any machine of the same kind, and no waiting for busy neighbours.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        report = EvidenceReport(
            f"the last {_test_share(recipe):.0%} of a synthetic world", setting=_world(recipe, args)
        )
        for seed in range(2 if args.quick else args.seeds):
            with tempfile.TemporaryDirectory() as folder:
                for contender, score in _scores(_of_seed(recipe, seed, args.quick), Path(folder)):
                    report.add(contender, score)
    finally:
        torch.set_num_threads(threads)
    report.conclude()
    if args.plot:
        save_plot(report, args.plot)
    return report


def _test_share(recipe: Recipe) -> float:
    return 1 - recipe.data.train_fraction - recipe.data.validation_fraction


def _world(recipe: Recipe, args: argparse.Namespace) -> dict[str, str | int | float]:
    fields = {**recipe.data.model_dump(exclude={"source", "seed"}), **(QUICK if args.quick else {})}
    return {"recipe": args.recipe.name, "epochs": recipe.training.epochs, **fields}


def _of_seed(recipe: Recipe, seed: int, quick: bool) -> Recipe:
    data = recipe.data.model_copy(update={"seed": seed, **(QUICK if quick else {})})
    return recipe.model_copy(update={"data": data, "training": recipe.training.model_copy(update={"seed": seed})})


def _scores(recipe: Recipe, folder: Path) -> Iterator[tuple[str, Score]]:
    """Name and score of everything that predicts in one world."""
    data = folder / "data"
    prepare(recipe, data, folder)
    examples = Examples.load(recipe, data / "examples")
    test = examples.part("test")
    truth = {name: values[test].astype(np.float64) for name, values in load_truth(data / "truth").items()}
    labels, hard = examples.arrays["labels"][test], truth["hard"] > 0
    for name, prefix in ((COLD, "cold_"), (BEST, ""), (HIDDEN, "hidden_")):
        chance_nK = np.stack([truth[prefix + label] for label in recipe.labels], axis=1)
        yield name, score(labels, np.log(chance_nK) - np.log1p(-chance_nK), hard)
    for name, kind in ((LR, "lr"), (FM, "fm")):
        yield name, score(labels, _baseline(recipe, data, kind)[test], hard)
    for contender in CONTENDERS:
        yield contender.name, score(labels, _trained(contender, recipe, data, folder), hard)


def _trained(contender: Contender, recipe: Recipe, data: Path, folder: Path) -> NDArray[np.float32]:
    """Logits of the test part."""
    print(f"seed {recipe.training.seed}: {contender.name}", flush=True)
    into = folder / contender.name.replace(" ", "_")
    train(contender.recipe(recipe), contender.tier, data, into)
    logits: NDArray[np.float32] = np.load(logits_file(into, "test"))
    return logits


def _baseline(recipe: Recipe, data: Path, kind: str) -> NDArray[np.float32]:
    """Logits of all examples."""
    print(f"seed {recipe.training.seed}: {kind}", flush=True)
    rank, rates = SETTINGS[kind]
    examples = Examples.load(recipe, data / "examples")
    table_rows = Tables.load(recipe, data / "vocabularies").table_rows
    model = FactorizationMachine(recipe, table_rows, rank, recipe.training.seed)
    fit(model, examples, recipe.training.model_copy(update=rates), kind)
    return predict(model, examples, np.arange(examples.split.end))


def score(label_nK: NDArray[np.float32], logit_nK: NDArray, hard_n: NDArray[np.bool_]) -> Score:
    """Quality of logits on the test part: of the first label in all, hard and easy requests, of the second in all."""
    parts = {"all": np.ones(len(hard_n), np.bool_), "hard": hard_n, "easy": ~hard_n}
    return Score(
        auc={part: auc(label_nK[rows, 0], logit_nK[rows, 0]) for part, rows in parts.items()},
        deep_auc=auc(label_nK[:, 1], logit_nK[:, 1]),
        log_loss=log_loss(label_nK[:, 0], logit_nK[:, 0]),
    )
