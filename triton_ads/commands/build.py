"""Build a recipe: data, training, calibration, split and export with their checks, release, model repository.

Each stage is skipped when nothing it depends on has changed: parts of the recipe, files of earlier stages, our own
source files, versions of packages. The line of a stage that runs says why.

  triton-ads build                                   the recipe build/recipes/movielens.yaml into var/
  triton-ads build --recipe my.yaml --var /data/ads  another recipe, another place
  triton-ads build --recipe b.yaml                   a second recipe, served beside it: see `serving.prefix`
  triton-ads build --from export                     redo export and everything after it
  triton-ads build --only train --force              redo training alone

Stages: data, check (each model of your own), train (each tier), baselines, calibrate and export (each tier), router
(where it is learned), identifiers, generator and pack (where ads are generated), release, repository.
Then: triton-ads serve; where the repository is being served already it stays as it is, and the last lines say how the
release gets behind the server.
"""

import argparse
from pathlib import Path

DEFAULT_RECIPE = Path("build/recipes/movielens.yaml")
DEFAULT_VAR = Path("var")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to build, and where to."""
    parser.add_argument(
        "--recipe", type=Path, default=DEFAULT_RECIPE, metavar="FILE", help="what to build (%(default)s)"
    )
    parser.add_argument("--var", type=Path, default=DEFAULT_VAR, metavar="FOLDER", help="where it goes (%(default)s)")


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument("--force", action="store_true", help="run stages even where nothing has changed")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--from", dest="start", metavar="STAGE", help="run this stage and all after it, changed or not")
    which.add_argument("--only", metavar="STAGE", help="run this stage alone")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from triton_ads.commands.after_build import next_steps
    from triton_ads.inspection.summary import summary
    from triton_ads.pipeline.build import build
    from triton_ads.pipeline.runner import Selection

    layout = build(args.recipe, args.var, Selection(force=args.force, start=args.start, only=args.only))
    if args.only is None:
        Console().print(summary(layout))
        print("\n".join(next_steps(layout, args.recipe)))
    return 0
