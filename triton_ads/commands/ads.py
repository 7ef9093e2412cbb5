"""Generate ads for a user and rank them, in one call of a running server.

    triton-ads ads --user 42
    triton-ads ads --user 42 --query "space adventure" --top 50 --context daypart=morning

The first half is `triton-ads target`, the second `triton-ads rank`.
"""

import argparse
import json
import sys
import time

from triton_ads.client import RankError, ServerUnavailableError, TargetClient
from triton_ads.commands.rank import as_document, context_values, current_release, raw, show, tell_unknown
from triton_ads.commands.target import add_options, asked_for, generating
from triton_ads.commands.unanswered import hint
from triton_ads.inspection.titles import load_titles
from triton_ads.manifest import Manifest, ManifestError
from triton_ads.recipe.names import ADS, beside


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument("--context", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    parser.add_argument("--tier", default="", help="insist on a tier")
    parser.add_argument("--model", metavar="NAME", help="PREFIX_ads of a recipe with a prefix (the only one, or ads)")


def run(args: argparse.Namespace) -> int:
    try:
        rank = generating(args.repository, ADS, args.model)
        folder = current_release(args.repository, rank)
        recipe, titles = Manifest.load(folder, verify_files=False).recipe, load_titles(folder)
        ids, dense = context_values(recipe, args.context)
        user_id, exclude = raw(args.user), [raw(ad) for ad in args.exclude]
        tell_unknown(folder, recipe, args.user)
        with TargetClient(args.url, args.protocol, model=beside(rank, ADS), labels=recipe.labels) as client:
            client.ads(user_id=user_id, top=1)  # opens the connection, whose time is not the answer's
            began = time.perf_counter()
            found = client.ads(
                user_id=user_id,
                query=args.query,
                exclude=exclude,
                top=args.top,
                deadline_ms=args.deadline_ms,
                context_features=ids,
                context_dense=dense,
                tier=args.tier,
            )
            milliseconds = (time.perf_counter() - began) * 1000
    except ServerUnavailableError as error:
        print(f"triton-ads ads: {error}\n{hint(error, args.url, args.protocol)}", file=sys.stderr)
        return 1
    except (RankError, ManifestError, OSError, ValueError) as error:
        print(f"triton-ads ads: {error}", file=sys.stderr)
        return 1
    ranking = found.ranking
    if args.json:
        document = as_document(ranking, titles, len(ranking), milliseconds)
        generated = dict(zip(found.target_ids.tolist(), found.target_scores.tolist(), strict=True))
        for one in document["ranked"]:
            one["target_score"] = round(generated[one["id"]], 6)
        print(json.dumps(document, ensure_ascii=False))
        return 0
    rule = recipe.rank_rule.text
    by = None if rule in recipe.labels else rule
    show(ranking, titles, len(ranking), f"{asked_for(args)}: {len(ranking)} generated, ranked", milliseconds, by)
    return 0
