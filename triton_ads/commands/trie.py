"""Look at an identifier tree: what every level costs a beam, and whether verifying will pay. Block ads at once.

    triton-ads trie inspect --recipe FILE            before a build: the tree that it would make, and other lengths
    triton-ads trie inspect                          the tree of the recipe being served that generates ads
    triton-ads trie inspect FOLDER --beam 50 --svg tree.svg
    triton-ads trie block 50 181                     never generated again, from the next batch on
    triton-ads trie unblock 50

A forward of T tokens is taken to last `--fixed-ms` + `--token-ms` x T; a server measures its own when it starts.
"""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

from triton_ads.commands.build import DEFAULT_VAR
from triton_ads.commands.options import whole
from triton_ads.commands.rank import current_release, raw
from triton_ads.commands.serve import REPOSITORY
from triton_ads.commands.target import generating
from triton_ads.inspection.tree import draw_tree
from triton_ads.manifest import Manifest
from triton_ads.recipe import load_recipe
from triton_ads.recipe.names import TARGET
from triton_ads.serving.blocked_ads import blocked_file, changing, read_blocked, write_blocked
from triton_ads.trie import load_tree
from triton_ads.trie.shape import FIXED_MS, TOKEN_MS, compared, described, shape_of


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    inspect = what.add_parser("inspect", help="nodes and tokens of every level, and the predicted gain")
    inspect.add_argument("folder", type=Path, nargs="?", help="of a tree (of the release that is being served)")
    inspect.add_argument("--recipe", type=Path, metavar="FILE", help="whose catalogue becomes a tree; nothing is built")
    inspect.add_argument("--var", type=Path, default=DEFAULT_VAR, help="where published data are kept (%(default)s)")
    inspect.add_argument("--beam", type=whole(1), metavar="B", help="nodes that survive (20, or the recipe's)")
    inspect.add_argument("--fixed-ms", type=float, default=FIXED_MS, help="of a forward (%(default)s)")
    inspect.add_argument("--token-ms", type=float, default=TOKEN_MS, help="of a token in a forward (%(default)s)")
    inspect.add_argument("--svg", type=Path, metavar="FILE", help="also draw it")
    block = what.add_parser("block", help="ads that must not be generated any more; prints all that are blocked")
    unblock = what.add_parser("unblock", help="ads that may be generated again; prints all that are blocked")
    for sub in (block, unblock):
        sub.add_argument("ads", nargs="*", metavar="AD", help="ids of ads")
    for sub in (inspect, block, unblock):
        sub.add_argument(
            "--model", metavar="NAME", help="PREFIX_target of a recipe with a prefix (the only one, or target)"
        )
        sub.add_argument("--repository", type=Path, default=REPOSITORY, help="that is being served (%(default)s)")


def run(args: argparse.Namespace) -> int:
    if args.what != "inspect":
        return _block(args)
    target = None
    if args.recipe:
        from triton_ads.targeting.preview import preview

        tree, target = preview(load_recipe(args.recipe), args.var / "downloads")
    else:
        tree = load_tree(args.folder or _release(args) / "target" / "tree")
    beam = args.beam or (target.beam if target else 20)
    try:
        shape = shape_of(tree, beam, args.fixed_ms, args.token_ms)
    except ValueError as error:
        raise SystemExit(f"triton-ads trie: {error}") from None
    print(described(tree, shape, beam))
    if target and target.identifiers.of != "titles":
        print(f"\nThe same ads with identifiers of other lengths, {target.events} events in a prompt:")
        print(compared(tree.ads, range(1, 7), beam, target.events, args.fixed_ms, args.token_ms))
    if args.svg:
        draw_tree(shape, beam, args.svg)
    return 0


def _release(args: argparse.Namespace) -> Path:
    return current_release(args.repository, generating(args.repository, TARGET, args.model))


def _block(args: argparse.Namespace) -> int:
    release = _release(args)
    path = blocked_file(release, Manifest.load(release, verify_files=False).recipe.name)
    try:
        chosen = {raw(ad): ad for ad in args.ads}
        with changing(path) if chosen else nullcontext():
            known = set(read_blocked(path).tolist())
            if chosen:
                known = known | chosen.keys() if args.what == "block" else known - chosen.keys()
                write_blocked(path, known)
    except ValueError as error:
        raise SystemExit(f"triton-ads trie: {error}") from None
    tree = load_tree(release / "target" / "tree")
    for ad, text in chosen.items():
        if tree.leaf_of(ad) is None:
            number = "" if text == str(ad) else f" (id {ad})"
            later = "; blocked for later ones" if args.what == "block" else ""
            print(f"{text}{number} is not an ad of this release{later}", file=sys.stderr)
    print(f"blocked: {', '.join(map(str, sorted(known))) or 'none'}")
    return 0
