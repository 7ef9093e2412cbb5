"""Beam search in the identifier tree: one forward a level, until what is left is scored at once.

The prompt's keys and values exist once. Beams are nodes: a survivor is run as a child of the node above it, and nothing
is ever moved in the decoder's memory.
"""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from triton_ads.serving.target.beams import Beams, choose
from triton_ads.serving.target.layers import Layer, Mode, survivors
from triton_ads.serving.target.step import PROMPT, Floats, Ints, Step
from triton_ads.serving.target.trigger import Trigger
from triton_ads.serving.target.verification import verify
from triton_ads.trie import Living, Tree


@dataclass(frozen=True)
class Found:
    """The best leaves, best first, and what it took to find them."""

    node_B: Ints
    score_B: Floats  # log-probability of the whole identifier
    layers: list[Layer]  # all that was scored at last: `best_leaves` of it are these
    forwards: int  # the prompt's not counted
    tokens: int  # nodes run
    verified: int  # of them in verification
    level: int | None  # at which the search verified; None: it stepped to the end
    steps_saved: int  # forwards fewer than one a level


Search = Generator[Step, Floats, Found]


def search(tree: Tree, living: Living, trigger: Trigger, beam: int, mode: Mode) -> Search:
    """The best `beam` ads, or all that there are.

    Args:
        beam: nodes that survive a level.
        mode: `beam`: the ads of step-by-step beam search, found in fewer steps; `exact`: the best of all ads below the
            survivors of the level at which the trigger fires, none of which is worse, rank by rank.
    """
    beams = yield from first_level(tree, living, beam)
    level, slots, forwards = 1, 0, 0
    leaders = []  # score of the best survivor of every level
    while len(beams):
        inner_B = ~tree.is_leaf(beams.node_B)
        leaders.append(float(beams.score_B[0]))
        if not inner_B.any():
            break
        plan = trigger.plan(level, beams, inner_B, beam)
        if plan.verify:
            left = yield from verify(tree, living, beams, plan.first_B, beam, mode, slots)
            _remember(trigger, leaders, left.score_B, beam)
            saved = max(0, tree.length - level - left.forwards)
            return Found(
                left.node_B,
                left.score_B,
                left.layers,
                forwards + left.forwards,
                slots + left.tokens,
                left.tokens,
                level,
                saved,
            )
        running = beams.take(inner_B)
        beams, slots = yield from _next_level(tree, living, beams.take(~inner_B), running, beam, slots)
        level, forwards = level + 1, forwards + 1
    _remember(trigger, leaders, beams.score_B, beam)
    return Found(beams.node_B, beams.score_B, [survivors(beams.node_B, beams.score_B)], forwards, slots, 0, None, 0)


def first_level(tree: Tree, living: Living, beam: int) -> Generator[Step, Floats, Beams]:
    """The best children of the root: the prompt's own forward answers for them."""
    children = living.children(np.zeros(1, np.int64))
    none = np.zeros(0, np.int64)
    count = len(children.node_E)
    score = yield Step(none, none, np.full(count, PROMPT), children.token_E)
    return choose(Beams(children.node_E, score, np.full(count, PROMPT)), beam)


def _next_level(
    tree: Tree, living: Living, finished: Beams, running: Beams, beam: int, slots: int
) -> Generator[Step, Floats, tuple[Beams, int]]:
    """Run the survivors; the best of their children and of what is finished. Returns the slots taken, too."""
    children = living.children(running.node_B)
    token_T = tree.token.take(running.node_B - 1).astype(np.int64)
    logp = yield Step(token_T, running.above_B, children.parent_E, children.token_E)
    score = running.score_B[children.parent_E] + logp
    candidates = Beams(children.node_E, score, slots + children.parent_E)
    return choose(finished.with_(candidates), beam), slots + len(running)


def _remember(trigger: Trigger, leaders: list[float], score_B: Floats, beam: int) -> None:
    if len(score_B) == beam:
        for level, leader in enumerate(leaders, 1):
            trigger.confidence.saw(level, leader, float(score_B[-1]))
