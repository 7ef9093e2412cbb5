"""Whether a tree's shape will be fast: what a beam finds on each level, and what verifying there would cost.

A beam of B survives each level (or all nodes, where there are fewer). Verifying at level k runs every internal node
below its survivors, in one forward of a + b C milliseconds, after k - 1 steps of a + b B. Survivors are taken to be
average nodes of their level; a model that prefers crowded branches finds more below them.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from triton_ads.trie.branching import check_branching, choose_branching
from triton_ads.trie.build import TreeError
from triton_ads.trie.tree import Ints, Tree

#: Milliseconds of a forward, fixed and for each token, of our 12 x 512 decoder in BF16 on one core, as `bench target`
#: fits them: what a shape is judged by where no model has been measured.
FIXED_MS, TOKEN_MS = 3.2, 0.91


@dataclass(frozen=True)
class Level:
    """One level of a tree, for a beam."""

    level: int
    nodes: int
    ads: int  # leaves of this level
    branching: float  # children of an internal node, on average
    survivors: int  # nodes that a beam keeps
    step_tokens: float  # of them to be run in a step
    verify_tokens: float  # internal nodes at and below them
    verify_ms: float | None  # of the whole search if it verifies here; None where there is nothing left to run


@dataclass(frozen=True)
class Shape:
    """A tree as a beam meets it."""

    levels: tuple[Level, ...]
    stepping_ms: float  # one forward a level to the end
    best_level: int | None  # at which verifying is cheapest; None where stepping to the end is

    @property
    def best_ms(self) -> float:
        """After the prompt, by the best plan."""
        return self.stepping_ms / self.gain

    @property
    def gain(self) -> float:
        """How many times faster the best plan is than stepping."""
        times = [level.verify_ms for level in self.levels if level.verify_ms is not None]
        return self.stepping_ms / min([self.stepping_ms, *times]) if self.stepping_ms else 1.0


def shape_of(tree: Tree, beam: int, fixed_ms: float = FIXED_MS, token_ms: float = TOKEN_MS) -> Shape:
    """The shape of `tree` for a beam, with forwards of `fixed_ms + token_ms * tokens` milliseconds.

    Raises:
        ValueError: a beam below 1 or costs below 0.
    """
    starts = np.array(tree.level_start, np.int64)
    return _shape(np.diff(starts), tree.internal_between(starts[:-1], starts[1:]), beam, fixed_ms, token_ms)


def shape_of_clusters(
    ads: int, branching: tuple[int, ...], beam: int, fixed_ms: float = FIXED_MS, token_ms: float = TOKEN_MS
) -> Shape:
    """The shape that balanced clusters of `ads` ads would have (cluster.py), from their numbers alone.

    Raises:
        TreeError: no room for so many ads.
        ValueError: as for `shape_of`.
    """
    check_branching(branching, ads)
    nodes = [1]
    sizes = {ads: 1}  # ads of a node of this level -> nodes of that size
    for width in branching:
        below: Counter[int] = Counter()
        for size, count in sizes.items():
            parts = min(width, size)
            each, larger = divmod(size, parts)
            below[each] += count * (parts - larger)
            if larger:
                below[each + 1] += count * larger
        sizes = below
        nodes.append(sum(sizes.values()))
    nodes_K = np.array(nodes, np.int64)
    return _shape(nodes_K, np.append(nodes_K[:-1], 0), beam, fixed_ms, token_ms)


def _shape(nodes: Ints, internal: Ints, beam: int, fixed_ms: float, token_ms: float) -> Shape:
    """Of every level from the root on: nodes, and those of them that have children."""
    if beam < 1 or fixed_ms < 0 or token_ms < 0:
        raise ValueError(f"beam {beam}, fixed_ms {fixed_ms}, token_ms {token_ms} found; 1, 0 and 0 or more are allowed")
    survivors = np.minimum(nodes, beam)
    share = survivors / nodes
    step_tokens = share * internal
    below = np.cumsum(internal[::-1])[::-1]  # internal nodes of this level and all deeper ones
    levels, spent = [], 0.0
    last = len(nodes) - 1
    for k in range(1, last + 1):
        verify_tokens = float(share[k] * below[k])
        verify_ms = spent + fixed_ms + token_ms * verify_tokens if internal[k] else None
        levels.append(
            Level(
                level=k,
                nodes=int(nodes[k]),
                ads=int(nodes[k] - internal[k]),
                branching=float(nodes[k + 1] / internal[k]) if k < last else 0.0,
                survivors=int(survivors[k]),
                step_tokens=float(step_tokens[k]),
                verify_tokens=verify_tokens,
                verify_ms=verify_ms,
            )
        )
        spent += fixed_ms + token_ms * float(step_tokens[k]) if internal[k] else 0.0
    times = {level.level: level.verify_ms for level in levels if level.verify_ms is not None}
    best = min(times, key=lambda k: times[k], default=None)
    return Shape(tuple(levels), spent, best if best is not None and times[best] < spent else None)


def described(tree: Tree, shape: Shape, beam: int) -> str:
    """The shape as a table of plain text, and what it means."""
    head = ("level", "nodes", "ads", "children", "survivors", "step tokens", "verify tokens", "verify here, ms")
    rows = [
        (
            str(level.level),
            str(level.nodes),
            str(level.ads),
            f"{level.branching:.1f}",
            str(level.survivors),
            f"{level.step_tokens:.0f}",
            f"{level.verify_tokens:.0f}",
            "-" if level.verify_ms is None else f"{level.verify_ms:.0f}",
        )
        for level in shape.levels
    ]
    lines = ["  ".join(cell.rjust(len(name)) for name, cell in zip(head, row, strict=True)) for row in (head, *rows)]
    plan = f"verify at level {shape.best_level}" if shape.best_level else "step to the end"
    return "\n".join(
        [
            f"{tree.ads} ads, {tree.nodes} nodes, {tree.nbytes / tree.ads:.0f} bytes an ad, beam {beam}",
            *lines,
            f"{plan}: {shape.gain:.2f}x over stepping, {shape.stepping_ms:.0f} ms",
        ]
    )


def compared(ads: int, lengths: Iterable[int], beam: int, events: int, fixed_ms: float, token_ms: float) -> str:
    """Clusters with identifiers of other lengths, as a table: what each would cost a request.

    Every token more is a forward more, and one more for each of the journey's `events` in the prompt. So among clusters
    the shortest identifiers are the fastest, and how many are worth their time is a question of recall.

    Lengths without room for so many ads are left out.
    """
    head = ("length", "children", "prompt tokens", "prompt, ms", "then stepping, ms", "or verifying, ms")
    rows = []
    for length in lengths:
        try:
            branching = choose_branching(ads, length)
        except TreeError:
            continue
        shape = shape_of_clusters(ads, branching, beam, fixed_ms, token_ms)
        prompt = events * length
        figures = (fixed_ms + token_ms * prompt, shape.stepping_ms, shape.best_ms)
        children = " ".join(map(str, branching))
        rows.append((str(length), children, str(prompt), *(f"{figure:.0f}" for figure in figures)))
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)
    )
