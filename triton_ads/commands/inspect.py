"""Look at a recipe, a release or the split of its models.

triton-ads inspect recipe                    columns of every tensor of the wire, in order, and the tables
triton-ads inspect recipe my.yaml            the same of another recipe; says what is wrong with one
triton-ads inspect release                   the release being served: tiers, quality, parity, cost
triton-ads inspect split --tier high         what a user's part computes and an ad's part reads; what is not shared
triton-ads inspect split --tier high --svg high.svg      the same, drawn as a picture
triton-ads inspect split --recipe my.yaml    the split of a recipe's models, untrained, before any build
triton-ads inspect schema                    the JSON schema of recipes, for editors
"""

import argparse
import json
import os
from pathlib import Path

from triton_ads.commands.build import DEFAULT_RECIPE
from triton_ads.commands.serve import REPOSITORY


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    recipe = what.add_parser("recipe", help="columns of the wire's tensors, tables, tiers")
    recipe.add_argument("recipe", type=Path, nargs="?", default=DEFAULT_RECIPE, metavar="FILE", help="(%(default)s)")
    release = what.add_parser("release", help="a release's tiers: quality, parity, cost")
    split = what.add_parser("split", help="what a tier's two parts do, and what could not be shared")
    for sub in (release, split):
        sub.add_argument(
            "release", type=Path, nargs="?", metavar="FOLDER", help=f"a release (the one that {REPOSITORY} serves)"
        )
    split.add_argument("--tier", help="this tier only")
    split.add_argument(
        "--svg", type=Path, metavar="FILE", help="also draw the parts in FILE, or one file a tier: FILE-TIER"
    )
    split.add_argument(
        "--recipe", type=Path, metavar="FILE", help="split this recipe's models as they are, untrained: no release"
    )
    what.add_parser("schema", help="the JSON schema of recipes")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    if args.what == "schema":
        from triton_ads.recipe import recipe_schema

        print(json.dumps(recipe_schema(), indent=1))
        return 0
    if args.what == "recipe":
        from triton_ads.inspection.recipe import show_recipe
        from triton_ads.recipe import load_recipe

        show_recipe(load_recipe(args.recipe), Console())
        return 0
    console = Console()
    wide = console if console.is_terminal else Console(width=160)  # in a file lines need not wrap
    if args.what == "split" and args.recipe:
        from triton_ads.commands.untrained import show_untrained

        show_untrained(args.recipe, args.tier, args.svg, wide)
        return 0
    from triton_ads.commands.rank import current_release
    from triton_ads.inspection.release import show_release, show_split

    folder = args.release or current_release(REPOSITORY)
    if args.what == "release":
        show_release(folder, console)
        if args.release is None:
            for line in _others(REPOSITORY, folder):
                print(line)
    else:
        show_split(folder, args.tier, wide, args.svg)
    return 0


def _others(repository: Path, shown: Path) -> list[str]:
    """What else a repository serves, a line each."""
    from triton_ads.commands.rank import current_release
    from triton_ads.export.repository import served_recipes

    releases = {rank: current_release(repository, rank) for rank in served_recipes(repository)}
    return [
        f"{repository} also serves {name} as {rank}: triton-ads inspect release {os.path.relpath(releases[rank])}"
        for rank, name in served_recipes(repository).items()
        if releases[rank] != shown
    ]
