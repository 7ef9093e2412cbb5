"""Names of the Triton models of a recipe: chains and the ensembles of them, all after the recipe's prefix.

no prefix       router        user_encoder        item_scorer        rank
prefix mine     mine_router   mine_user_encoder   mine_item_scorer   mine_rank

A recipe that generates ads has two models and two ensembles more: `target`, and `ads`, which ranks what it answers.

                generator     trie_verifier       target             ads
"""

from collections.abc import Collection

ROUTER, ENCODER, SCORER, ENSEMBLE = "router", "user_encoder", "item_scorer", "rank"
MODELS = (ROUTER, ENCODER, SCORER)
GENERATOR, VERIFIER, TARGET, ADS = "generator", "trie_verifier", "target", "ads"
TARGET_MODELS = (GENERATOR, VERIFIER)


def prefixed(name: str, prefix: str | None) -> str:
    """
    >>> prefixed("rank", None), prefixed("rank", "mine")
    ('rank', 'mine_rank')
    """
    return f"{prefix}_{name}" if prefix else name


def chain_of(ensemble: str) -> tuple[str, ...]:
    """The three models behind an ensemble; nothing where the name is none of an ensemble.

    >>> chain_of("mine_rank")
    ('mine_router', 'mine_user_encoder', 'mine_item_scorer')
    """
    start = ensemble.removesuffix(ENSEMBLE)
    if start == ensemble or (start and (not start.endswith("_") or start == "_")):
        return ()
    return tuple(f"{start}{name}" for name in MODELS)


def beside(ensemble: str, name: str) -> str:
    """Another model of the recipe whose ensemble this is.

    >>> beside("mine_rank", "target")
    'mine_target'
    """
    return f"{ensemble.removesuffix(ENSEMBLE)}{name}"


def ensembles(models: Collection[str]) -> list[str]:
    """Those of `models` that can be asked to rank, sorted: ensembles whose three models are there as well.

    >>> ensembles(["rank", "b_rank", "b_router", "b_user_encoder", "b_item_scorer", "page_rank"])
    ['b_rank']
    """
    return sorted(m for m in models if chain_of(m) and set(chain_of(m)) <= set(models))
