"""Benchmark `targeting`: the paper's table of targeted advertising, on MovieLens.

Recall of the film that a user liked next, and time a request, of a dense generator, INT4, N:M sparse with INT4, and
that with verification instead of steps; generators trained with several seeds, so that a difference can be told from
chance. Contenders answer the same questions, and are timed in turns on one thread. Seeds may differ more than
contenders do: claims are about a contender's recall as a share of the dense one's of the same seed.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from triton_ads.bench.report import Report
from triton_ads.bench.targeting_models import DENSE, INT4, MIX, SPARSE, Lesson, generators
from triton_ads.bench.targeting_report import VERIFIED, Figures, add_claims, add_rows
from triton_ads.bench.targeting_search import Answer, Kind, searching
from triton_ads.bench.timing import interleave
from triton_ads.commands.options import whole
from triton_ads.compression.packed_model import PackedModel
from triton_ads.data.log import Log
from triton_ads.data.sources import read_log
from triton_ads.data.split import split_by_time
from triton_ads.recipe import Recipe, RecipeError, load_recipe
from triton_ads.recipe.target import Target
from triton_ads.serving.target.ads import Asked
from triton_ads.targeting.catalogue import identifiers_of, prompt_format, texts_of, write_catalogue
from triton_ads.targeting.examples import ExampleMaker
from triton_ads.targeting.journeys import Journeys
from triton_ads.targeting.quality import AT, baselines, measures_of
from triton_ads.targeting.recall import Question
from triton_ads.trie import Tree
from triton_ads.trie.shape import described, shape_of

RECIPE = Path("build/recipes/targeting.yaml")
#: Contender -> weights, and how they search.
CONTENDERS: dict[str, tuple[str, Kind]] = {
    DENSE: (DENSE, "steps"),
    INT4: (INT4, "steps"),
    SPARSE: (SPARSE, "steps"),
    VERIFIED: (SPARSE, "exact"),
    MIX: (MIX, "steps"),
    f"{DENSE}, mode beam": (DENSE, "beam"),
    f"{DENSE}, mode exact": (DENSE, "exact"),
    f"{DENSE}, mode global": (DENSE, "global"),
    f"{SPARSE}, mode beam": (SPARSE, "beam"),
    f"{SPARSE}, mode global": (SPARSE, "global"),
}
#: Requests that a contender answers in a timed turn.
_BURST = 50


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", type=Path, default=RECIPE, metavar="FILE", help="with a target (%(default)s)")
    parser.add_argument("--seeds", type=whole(0), nargs="+", default=[0, 1, 2], help="of training (0 1 2)")
    parser.add_argument("--questions", type=whole(_BURST), default=1500, metavar="N",
                        help="of the test part, spread over it (%(default)s)")  # fmt: skip
    parser.add_argument("--recovery-steps", type=whole(0, 1000), default=100, metavar="N",
                        help="of training what pruning has left (%(default)s)")  # fmt: skip
    parser.add_argument("--rounds", type=whole(1), default=7, help="turns of every contender (%(default)s)")
    parser.add_argument("--downloads", type=Path, default=Path("var/downloads"), help="published data (%(default)s)")
    parser.add_argument("--keep", type=Path, default=Path("var/bench/targeting"), metavar="FOLDER",
                        help="generators, found again by a second run (%(default)s)")  # fmt: skip


def run(args: argparse.Namespace) -> Report:
    import torch

    torch.set_num_threads(1)
    recipe = load_recipe(args.recipe)
    target = recipe.target
    if target is None or target.model.checkpoint is not None:
        raise RecipeError(
            f"{args.recipe}: no generator to train; a recipe with a `target` without checkpoint is needed"
        )
    log = read_log(recipe, args.downloads)
    journeys = Journeys.of(log, split_by_time(log.time, recipe.data), target.journey)
    with tempfile.TemporaryDirectory() as folder:
        tree, lesson = _catalogue(recipe, target, log, journeys, Path(folder))
    print(described(tree, shape_of(tree, target.beam), target.beam), flush=True)
    questions = journeys.questions("test", args.questions)
    asked = [_asked(question, log, lesson.maker) for question in questions]
    burst = asked[:: max(1, len(asked) // _BURST)][:_BURST]
    position = {ad: i for i, ad in enumerate(log.item_ids.tolist())}
    figures = Figures()
    for name, answer in baselines(log, journeys).items():
        figures.of_baseline[name] = measures_of([answer(question, max(AT)) for question in questions], questions)
    for seed in args.seeds:
        models = generators(lesson, target, seed, args.recovery_steps, args.keep)
        contenders = _contenders(models, tree, lesson, target)
        for name, contender in contenders.items():
            answers = [[position[ad] for ad in contender(one).tolist()] for one in asked]
            measures = measures_of(answers, questions)
            figures.of_seed.setdefault(name, []).append(measures)
            print(f"seed {seed}: {name}: recall@20 {measures['recall@20']:.4f}", flush=True)
        turns: dict[str, Callable[[], object]] = {
            name: partial(_all, contender, burst) for name, contender in contenders.items()
        }
        figures.timings.append(interleave(turns, args.rounds))
    report = Report(f"{tree.ads} generated ads, {len(questions)} questions, beam {target.beam}, one thread")
    report.setting = {"recipe": recipe.name, "seeds": len(args.seeds), "recovery steps": args.recovery_steps}
    add_rows(report, figures, len(burst))
    add_claims(report, figures)
    return report


def _catalogue(recipe: Recipe, target: Target, log: Log, journeys: Journeys, folder: Path) -> tuple[Tree, Lesson]:
    tree = write_catalogue(recipe, target, log, folder)
    form = prompt_format(target, folder)
    maker = ExampleMaker(form, identifiers_of(tree, log), texts_of(log), target.training.query_share)
    widths = tuple(json.loads((folder / "branching.json").read_text()))
    vocabulary, positions = form.vocabulary.first_identifier + sum(widths), form.longest(tree.length)
    return tree, Lesson(maker, journeys.training(), vocabulary, positions, widths, tree.catalogue)


def _asked(question: Question, log: Log, maker: ExampleMaker) -> Asked:
    prompt = maker.form.prompt([maker.identifiers[ad] for ad in question.journey])
    return Asked(prompt, log.item_ids[sorted(question.seen)], max(AT))


def _contenders(models: dict[str, PackedModel], tree: Tree, lesson: Lesson, target: Target) -> dict[str, Answer]:
    return {
        name: searching(tree, models[weights], lesson.positions - tree.length, target, kind)
        for name, (weights, kind) in CONTENDERS.items()
    }


def _all(contender: Answer, burst: list[Asked]) -> None:
    for one in burst:
        contender(one)
