"""What `bench serving` asks: users and items of a release, in two mixes of request lengths; and the right answers."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from triton_ads.bench.serving_contender import Ask
from triton_ads.bench.serving_peers.lookup import Lookup
from triton_ads.bench.serving_peers.ranker import row_inputs
from triton_ads.loadtest.traffic import MEDIAN, log_normal

# N candidates, K labels

FIXED = 256
EDGES = (1, 2, 700)  # lengths of which each contender also answers one before it is measured

_Lengths = Callable[[np.random.Generator, int], NDArray[np.int64]]


def fixed(random: np.random.Generator, count: int) -> NDArray[np.int64]:
    return np.full(count, FIXED)


MIXES: dict[str, _Lengths] = {
    f"{FIXED} candidates": fixed,
    f"log-normal, median {MEDIAN}": log_normal,
}


def draw(release: Path, lengths: _Lengths, count: int, longest: int, seed: int) -> list[Ask]:
    """Requests of users and items that the release knows, both drawn with replacement.

    Args:
        longest: what the release allows; a longer request is cut to it.
    """
    random = np.random.default_rng(seed)
    users, items = (np.load(release / "store" / side / "ids.npy") for side in ("users", "items"))
    return [
        Ask(int(random.choice(users)), random.choice(items, min(int(length), longest)))
        for length in lengths(random, count)
    ]


def samples(release: Path, longest: int) -> list[Ask]:
    """A few requests of each mix, and the edges: what contenders are compared on before they are measured."""
    asks = [ask for lengths in MIXES.values() for ask in draw(release, lengths, 4, longest, seed=1)]
    for length in EDGES:
        asks += draw(release, lambda _, count, length=length: np.full(count, length), 1, longest, seed=length)  # type: ignore[misc]
    return asks


def right_scores(ranker: nn.Module, release: Path, asks: Sequence[Ask]) -> list[NDArray[np.float32]]:
    """Scores [N, K] of the row-wise module, eager: what every contender must answer."""
    lookup = Lookup(release)
    with torch.inference_mode():
        return [ranker(**row_inputs(lookup, ask.user, ask.candidates_N)).numpy() for ask in asks]
