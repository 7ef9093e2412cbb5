"""Every mode against plain searches over all identifiers, on random models and random trees."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triton_ads.serving.target.best_first import best_first
from triton_ads.serving.target.search import Found, Search, search
from triton_ads.serving.target.step import PROMPT, Step
from triton_ads.serving.target.together import Request, run_together
from triton_ads.serving.target.trigger import ForwardCost, Trigger
from triton_ads.trie import Blocked, Tree, build_tree

VOCABULARY = 8


def distribution(seed: int, path: tuple[int, ...]) -> np.ndarray:
    """Log-probabilities after a path: any distribution, the same for the same path."""
    digest = hashlib.sha256(repr((seed, path)).encode()).digest()
    random = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    logits = np.round(random.normal(size=VOCABULARY) * 2)  # rounded, so that there are ties
    return logits - np.log(np.exp(logits).sum())


@dataclass
class Session:
    """The paths of the nodes that were run of a prompt."""

    seed: int
    paths: list[tuple[int, ...]] = field(default_factory=list)
    ran: list[int] = field(default_factory=list)


class TableDecoder:
    """A language model without layers: what follows a path is looked up. It holds a step to its contract."""

    def session(self, prompt: Any) -> Session:
        return Session(int(prompt[0]))

    def forward(self, steps: Sequence[tuple[Any, Step]]) -> list[np.ndarray]:
        return [self._one(session, step) for session, step in steps]

    def _one(self, session: Session, step: Step) -> np.ndarray:
        paths = list(session.paths)
        for token, parent in zip(step.token_T.tolist(), step.parent_T.tolist(), strict=True):
            assert PROMPT <= parent < len(paths)
            paths.append((*(paths[parent] if parent != PROMPT else ()), token))
        own = paths[len(session.paths) :]
        session.ran.append(len(own))
        session.paths = paths
        assert not own or (step.row_E >= 0).all()
        return np.array(
            [
                distribution(session.seed, own[row] if row != PROMPT else ())[token]
                for row, token in zip(step.row_E.tolist(), step.asked_E.tolist(), strict=True)
            ]
        )


def run(tree: Tree, seed: int, one: Search) -> tuple[Found, list[int]]:
    decoder = TableDecoder()
    request = Request(decoder.session([seed]), one)
    run_together(decoder, [request])
    assert request.found is not None
    return request.found, request.session.ran  # type: ignore[attr-defined]


def score_of(seed: int, identifier: tuple[int, ...]) -> float:
    return float(sum(distribution(seed, identifier[:k])[token] for k, token in enumerate(identifier)))


Scored = list[tuple[tuple[int, ...], float]]


def by_score(tree: Tree, scored: Scored) -> Scored:
    """Best first, ties by the tree's numbering, as the search has them."""
    return sorted(scored, key=lambda one: (-one[1], tree.node_of(list(one[0]))))


def plain_beam(tree: Tree, seed: int, ids: list[tuple[int, ...]], beam: int, stop: int | None = None) -> Scored:
    """Step by step, over lists of prefixes. With `stop`, all leaves below the survivors of that level."""
    alive: Scored = [((), 0.0)]
    for level in range(1, tree.length + 1):
        grown: Scored = []
        for prefix, score in alive:
            if prefix in ids:
                grown.append((prefix, score))
                continue
            tokens = sorted({i[len(prefix)] for i in ids if i[: len(prefix)] == prefix and len(i) > len(prefix)})
            grown += [((*prefix, t), score + float(distribution(seed, prefix)[t])) for t in tokens]
        alive = by_score(tree, grown)[:beam]
        if level == stop:
            below = [i for i in ids if any(i[: len(p)] == p for p, _ in alive)]
            return by_score(tree, [(i, score_of(seed, i)) for i in below])[:beam]
    return alive


def compare(tree: Tree, found: Found, expected: Scored) -> None:
    got = [tuple(tree.path(int(node))) for node in found.node_B]
    assert got == [identifier for identifier, _ in expected]
    np.testing.assert_allclose(found.score_B, [score for _, score in expected], atol=1e-9)


variable = st.lists(
    st.lists(st.integers(1, VOCABULARY - 1), max_size=4).map(lambda tokens: (*tokens, 0)),
    min_size=1,
    max_size=50,
    unique=True,
)
fixed = st.integers(1, 5).flatmap(
    lambda length: st.lists(st.tuples(*[st.integers(0, 3)] * length), min_size=1, max_size=60, unique=True)
)
catalogues = st.one_of(variable, fixed)
COST = ForwardCost(1.0, 0.1)


@given(catalogues, st.integers(1, 12), st.integers(0, 99), st.integers(0, 5))
def test_beam_mode_is_beam_search_wherever_it_verifies(
    ids: list[tuple[int, ...]], beam: int, seed: int, at: int
) -> None:
    tree = build_tree(ids, range(len(ids)))
    found, ran = run(tree, seed, search(tree, Blocked(tree), Trigger(tree, COST, at=at), beam, "beam"))
    compare(tree, found, plain_beam(tree, seed, ids, beam))
    assert sum(ran) == found.tokens and len(ran) == found.forwards + 1


@given(catalogues, st.integers(1, 12), st.integers(0, 99), st.integers(1, 5))
def test_exact_mode_is_the_best_below_the_survivors(ids: list[tuple[int, ...]], beam: int, seed: int, at: int) -> None:
    tree = build_tree(ids, range(len(ids)))
    found, _ = run(tree, seed, search(tree, Blocked(tree), Trigger(tree, COST, at=at), beam, "exact"))
    compare(tree, found, plain_beam(tree, seed, ids, beam, stop=at))
    plain = plain_beam(tree, seed, ids, beam)
    assert len(found.score_B) == len(plain) == min(beam, len(ids))
    assert all(ours >= theirs - 1e-9 for ours, (_, theirs) in zip(found.score_B, plain, strict=True))


@given(catalogues, st.integers(1, 12), st.integers(0, 99), st.integers(1, 40))
def test_global_mode_is_exhaustive_search(ids: list[tuple[int, ...]], beam: int, seed: int, width: int) -> None:
    tree = build_tree(ids, range(len(ids)))
    found, _ = run(tree, seed, best_first(tree, Blocked(tree), beam, width))
    compare(tree, found, by_score(tree, [(i, score_of(seed, i)) for i in ids])[:beam])


@given(
    catalogues,
    st.integers(1, 8),
    st.floats(0, 50),
    st.floats(0.01, 5),
    st.sampled_from(["beam", "exact"]),
    st.lists(st.integers(0, 99), min_size=1, max_size=80),
)
def test_confidence_changes_what_is_run_and_never_what_is_found(
    ids: list[tuple[int, ...]], beam: int, fixed_ms: float, token_ms: float, mode: Any, seeds: list[int]
) -> None:
    """A trigger that has seen many requests, of which the next may be unlike any."""
    tree = build_tree(ids, range(len(ids)))
    trigger = Trigger(tree, ForwardCost(fixed_ms, token_ms))
    for level in range(1, tree.length + 1):
        for gap in np.linspace(-4, 0, 64):
            trigger.confidence.saw(level, 0.0, float(gap))
    for seed in seeds:
        found, _ = run(tree, seed, search(tree, Blocked(tree), trigger, beam, mode))
        compare(tree, found, plain_beam(tree, seed, ids, beam, stop=found.level if mode == "exact" else None))


@given(catalogues, st.integers(1, 12), st.integers(0, 9), st.data())
def test_blocked_ads_are_never_found(ids: list[tuple[int, ...]], beam: int, seed: int, data: Any) -> None:
    tree = build_tree(ids, range(len(ids)))
    blocked = Blocked(tree)
    gone = data.draw(st.sets(st.integers(0, len(ids) - 1)))
    blocked.block(gone)
    left = [i for ad, i in enumerate(ids) if ad not in gone]
    for at in (0, 1, 2):
        found, _ = run(tree, seed, search(tree, blocked, Trigger(tree, COST, at=at), beam, "beam"))
        compare(tree, found, plain_beam(tree, seed, left, beam) if left else [])
    found, _ = run(tree, seed, best_first(tree, blocked, beam))
    compare(tree, found, by_score(tree, [(i, score_of(seed, i)) for i in left])[:beam])


@settings(max_examples=30)
@given(st.lists(st.tuples(catalogues, st.integers(1, 9), st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=5))
def test_together_as_alone(many: list[tuple[list[tuple[int, ...]], int, int, int]]) -> None:
    decoder = TableDecoder()
    alone, requests = [], []
    for ids, beam, seed, at in many:
        tree = build_tree(ids, range(len(ids)))
        blocked, trigger = Blocked(tree), Trigger(tree, COST, at=at)
        alone.append(run(tree, seed, search(tree, blocked, trigger, beam, "beam"))[0])
        requests.append(Request(decoder.session([seed]), search(tree, blocked, trigger, beam, "beam")))
    run_together(decoder, requests)
    for one, request in zip(alone, requests, strict=True):
        assert request.found is not None
        assert request.found.node_B.tolist() == one.node_B.tolist()
        assert request.found.score_B.tolist() == one.score_B.tolist()


def test_one_that_is_stopped_leaves_the_others_alone() -> None:
    tree = build_tree([(a, b, c) for a in range(4) for b in range(4) for c in range(4)], range(64))
    decoder = TableDecoder()
    requests = [
        Request(decoder.session([seed]), search(tree, Blocked(tree), Trigger(tree, COST, at=0), 3, "beam"))
        for seed in range(3)
    ]
    asked: list[int] = []

    def check(number: int) -> None:
        asked.append(number)
        if number == 1 and asked.count(1) == 2:
            raise TimeoutError("too late")

    run_together(decoder, requests, check)
    assert isinstance(requests[1].stopped, TimeoutError) and requests[1].found is None
    for seed in (0, 2):
        expected, _ = run(tree, seed, search(tree, Blocked(tree), Trigger(tree, COST, at=0), 3, "beam"))
        found = requests[seed].found
        assert found is not None and found.node_B.tolist() == expected.node_B.tolist()


def test_steps_saved_and_tokens_of_a_tree_worked_by_hand() -> None:
    """Four children of the root, each with one path of two more tokens: below each survivor of level 1, two nodes."""
    tree = build_tree([(a, a, a) for a in range(4)], range(4))
    found, ran = run(tree, 0, search(tree, Blocked(tree), Trigger(tree, COST, at=1), 3, "beam"))
    assert ran == [0, 6]
    assert (found.forwards, found.tokens, found.verified, found.level, found.steps_saved) == (1, 6, 6, 1, 1)
    found, ran = run(tree, 0, search(tree, Blocked(tree), Trigger(tree, COST, at=0), 3, "beam"))
    assert ran == [0, 3, 3]
    assert (found.forwards, found.tokens, found.verified, found.level, found.steps_saved) == (2, 6, 0, None, 0)


@pytest.mark.parametrize(
    ("cost", "level"),
    [
        (ForwardCost(10, 1), 1),  # 3 x 2 nodes now: 16; a step first: 13 + 13
        (ForwardCost(0.1, 1), 1),  # equal tokens: a forward fewer is cheaper
    ],
)
def test_forced_tails_are_verified_at_once(cost: ForwardCost, level: int) -> None:
    tree = build_tree([(a, a, a) for a in range(4)], range(4))
    found, _ = run(tree, 0, search(tree, Blocked(tree), Trigger(tree, cost), 3, "beam"))
    assert found.level == level


def test_a_bushy_tree_is_stepped_through_first() -> None:
    """Below 2 survivors of the first level lie 2 x (1 + 8) internal nodes; one level down, 2."""
    tree = build_tree([(a, b, c) for a in range(8) for b in range(8) for c in range(8)], range(512))
    trigger = Trigger(tree, ForwardCost(1, 1))
    found, _ = run(tree, 0, search(tree, Blocked(tree), trigger, 2, "beam"))
    assert found.level == 2
    found, _ = run(tree, 0, search(tree, Blocked(tree), Trigger(tree, ForwardCost(100, 1)), 2, "beam"))
    assert found.level == 1


def test_a_verification_that_would_be_too_large_is_not_begun() -> None:
    tree = build_tree([(a, b, c) for a in range(8) for b in range(8) for c in range(8)], range(512))
    for most, level in ((18, 1), (17, 2), (2, 2), (1, None)):
        found, _ = run(tree, 0, search(tree, Blocked(tree), Trigger(tree, ForwardCost(100, 1), most=most), 2, "beam"))
        assert found.level == level
        compare(tree, found, plain_beam(tree, 0, [tuple(i) for i in tree.identifiers()], 2))
