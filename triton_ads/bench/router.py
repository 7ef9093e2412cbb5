"""`bench router`: quality against mean FLOPs, by whoever chooses the requests of the high tier.

For each seed a recipe is built up to its router: a world (where the data is synthetic), both tiers, the learned router.
The router is fitted on the validation part; everything here is measured on the test part, which nothing was chosen by.
Random is a mean over many orders, length takes the longest histories first.
"""

import argparse
import functools
import json
from pathlib import Path

from triton_ads.bench.router_plot import save_plot
from triton_ads.bench.router_report import RouterReport
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.plan import plan
from triton_ads.pipeline.runner import Selection, run_stages
from triton_ads.recipe import Recipe, load_recipe, parse_recipe

#: What a router is made of: neither baselines nor a release.
STAGES = frozenset({"data", "train", "calibrate", "export", "router"})
#: A world too small to learn much from: to see that everything runs.
QUICK = {"users": 1_000, "items": 200, "events": 6_000}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe", type=Path, default=Path("build/recipes/synthetic.yaml"), help="two tiers (default: %(default)s)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="builds, each of its own seed (default: %(default)s)")
    parser.add_argument(
        "--var", type=Path, default=Path("var/bench"), help="where they go and are found again (default: %(default)s)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the curves, as SVG")
    parser.add_argument("--quick", action="store_true", help="a small world and two seeds, to see that it runs")


def run(args: argparse.Namespace) -> RouterReport:
    """Build and compare; see `configure`.

    Raises:
        RecipeError: the recipe has no second tier to route to.
    """
    recipe = load_recipe(args.recipe)
    report = RouterReport(f"{recipe.name}: quality against mean FLOPs", labels=recipe.labels)
    for seed in range(2 if args.quick else args.seeds):
        layout = build_router(of_seed(recipe, seed, quick=args.quick), args.var)
        report.add(json.loads((layout.work("router") / "curves.json").read_text()))
    report.conclude()
    if args.plot:
        save_plot(report, args.plot)
    return report


def of_seed(recipe: Recipe, seed: int, *, quick: bool) -> Recipe:
    """The recipe with a learned router, and all that is random by the seed; a synthetic world is another one."""
    document = recipe.model_dump(mode="json", exclude_defaults=True)
    document["name"] = f"{recipe.name}_{'quick_' if quick else ''}{seed}"
    document.setdefault("training", {})["seed"] = seed
    document["router"]["kind"] = "learned"
    if recipe.data.source == "synthetic":
        document["data"] |= {"seed": seed, **(QUICK if quick else {})}
    return parse_recipe(document)


def build_router(recipe: Recipe, var: Path) -> Layout:
    """Run the stages of a recipe that its router is made of, or skip them where they are up to date."""
    layout = Layout(var, recipe.name)
    stages = [stage for stage in plan(recipe, layout) if stage.kind in STAGES]
    run_stages(stages, Selection(), functools.partial(print, flush=True))
    return layout
