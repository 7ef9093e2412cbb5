"""Look at an identifier tree: what every level costs a beam, and whether verifying will pay.

    triton-ads trie inspect                          the tree of the recipe being served that generates ads
    triton-ads trie inspect FOLDER --beam 50 --svg tree.svg

A forward of T tokens is taken to last `--fixed-ms` + `--token-ms` x T; a server measures its own when it starts.
"""

import argparse
from pathlib import Path

from triton_ads.commands.options import whole
from triton_ads.commands.rank import current_release
from triton_ads.commands.serve import REPOSITORY
from triton_ads.commands.target import generating
from triton_ads.inspection.tree import draw_tree
from triton_ads.recipe.names import TARGET
from triton_ads.trie import load_tree
from triton_ads.trie.shape import FIXED_MS, TOKEN_MS, described, shape_of


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    inspect = what.add_parser("inspect", help="nodes and tokens of every level, and the predicted gain")
    inspect.add_argument("folder", type=Path, nargs="?", help="of a tree (of the release that is being served)")
    inspect.add_argument("--beam", type=whole(1), default=20, metavar="B", help="nodes that survive (%(default)s)")
    inspect.add_argument("--fixed-ms", type=float, default=FIXED_MS, help="of a forward (%(default)s)")
    inspect.add_argument("--token-ms", type=float, default=TOKEN_MS, help="of a token in a forward (%(default)s)")
    inspect.add_argument("--svg", type=Path, metavar="FILE", help="also draw it")
    inspect.add_argument("--repository", type=Path, default=REPOSITORY, help="that is being served (%(default)s)")


def run(args: argparse.Namespace) -> int:
    folder = args.folder
    if folder is None:
        rank = generating(args.repository, TARGET, None)
        folder = current_release(args.repository, rank) / "target" / "tree"
    tree = load_tree(folder)
    try:
        shape = shape_of(tree, args.beam, args.fixed_ms, args.token_ms)
    except ValueError as error:
        raise SystemExit(f"triton-ads trie: {error}") from None
    print(described(tree, shape, args.beam))
    if args.svg:
        draw_tree(shape, args.beam, args.svg)
    return 0
