"""Build a recipe: data, training, split and export with their checks, release, model repository.

Each stage is skipped when nothing it depends on has changed: parts of the recipe, files of earlier stages, our own
source files, versions of packages. The line of a stage that runs says why.

  triton-ads build                                   the recipe build/recipes/movielens.yaml into var/
  triton-ads build --recipe my.yaml --var /data/ads  another recipe, another place
  triton-ads build --from export                     redo export and everything after it
  triton-ads build --only train --force              redo training alone

Stages: data, train (each tier), baselines, export (each tier), release, repository.
Then: triton-ads serve
"""

import argparse
import functools
from pathlib import Path

DEFAULT_RECIPE = Path("build/recipes/movielens.yaml")
DEFAULT_VAR = Path("var")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe", type=Path, default=DEFAULT_RECIPE, metavar="FILE", help="what to build (default: %(default)s)"
    )
    parser.add_argument(
        "--var", type=Path, default=DEFAULT_VAR, metavar="FOLDER", help="where it goes (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="run stages even where nothing has changed")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--from", dest="start", metavar="STAGE", help="run this stage and all after it, changed or not")
    which.add_argument("--only", metavar="STAGE", help="run this stage alone")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from triton_ads.pipeline.layout import Layout
    from triton_ads.pipeline.plan import plan
    from triton_ads.pipeline.runner import Selection, run_stages
    from triton_ads.pipeline.summary import summary
    from triton_ads.recipe import load_recipe

    recipe = load_recipe(args.recipe)
    layout = Layout(args.var, recipe.name)
    selection = Selection(force=args.force, start=args.start, only=args.only)
    run_stages(plan(recipe, layout), selection, functools.partial(print, flush=True))
    if args.only is None:
        Console().print(summary(recipe, layout))
        print(f"Repository: {layout.repository}    serve it: triton-ads serve", flush=True)
    return 0
