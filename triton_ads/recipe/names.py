"""Names of the Triton models of a recipe, all after the recipe's prefix.

                layout single   layout ensemble
no prefix       rank            rank             router        user_encoder        item_scorer
prefix mine     mine_rank       mine_rank        mine_router   mine_user_encoder   mine_item_scorer

Clients ask `rank` in either layout: it is a model, or an ensemble of the three. A recipe that generates ads has two
models and two ensembles more: `target`, and `ads`, which ranks what it answers.

                generator     trie_verifier       target             ads
"""

import os
from collections.abc import Collection
from pathlib import Path

RANK, ROUTER, ENCODER, SCORER = "rank", "router", "user_encoder", "item_scorer"
#: What ranks, by layout, in the order in which a request meets it.
LAYOUTS = {"single": (RANK,), "ensemble": (ROUTER, ENCODER, SCORER)}
GENERATOR, VERIFIER, TARGET, ADS = "generator", "trie_verifier", "target", "ads"
TARGET_MODELS = (GENERATOR, VERIFIER)
#: In the folder of a version of a model: the link to the release that it serves.
RELEASE_LINK = "release"


def prefixed(name: str, prefix: str | None) -> str:
    """
    >>> prefixed("rank", None), prefixed("rank", "mine")
    ('rank', 'mine_rank')
    """
    return f"{prefix}_{name}" if prefix else name


def chain_of(rank: str, models: Collection[str]) -> tuple[str, ...]:
    """The models, out of `models`, that answer for a model or ensemble called `rank` or PREFIX_rank.

    >>> chain_of("mine_rank", ["mine_rank", "mine_router", "mine_user_encoder", "mine_item_scorer"])
    ('mine_router', 'mine_user_encoder', 'mine_item_scorer')
    >>> chain_of("mine_rank", ["mine_rank"])
    ('mine_rank',)
    """
    chain = tuple(beside(rank, name) for name in LAYOUTS["ensemble"])
    return chain if set(chain) & set(models) else (rank,)


def beside(rank: str, name: str) -> str:
    """Another model of the recipe whose `rank` this is.

    >>> beside("mine_rank", "target")
    'mine_target'
    """
    return f"{rank.removesuffix(RANK)}{name}"


def rankers(repository: Path) -> list[str]:
    """What can be asked to rank, sorted: every `rank` of a model repository whose models have a release.

    A model of somebody else's, which happens to be called page_rank, is none.
    """
    folders = {path.name for path in repository.glob("*") if path.is_dir()}
    ranks = (name for name in folders if name == RANK or name.endswith(f"_{RANK}"))
    return sorted(rank for rank in ranks if all(_has_release(repository / m) for m in chain_of(rank, folders)))


def askable(repository: Path, models: Collection[str]) -> list[str]:
    """What clients ask, of the `models` that a server has loaded: every `rank`, then every `target`."""
    ranks = [rank for rank in rankers(repository) if rank in models]
    return [*ranks, *(name for name in (beside(rank, TARGET) for rank in ranks) if name in models)]


def _has_release(model: Path) -> bool:
    # A link whose release is gone is one, too: the server will say what is wrong with it.
    return any(os.path.lexists(version / RELEASE_LINK) for version in model.glob("[0-9]*"))
