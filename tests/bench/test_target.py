"""The trees of the benchmark are what their names say, and what is timed finds what it should; its whole run takes
minutes and is not a test."""

import argparse

import numpy as np
import pytest

from tests.support.random_llama import config_of, random_model
from triton_ads.bench import target
from triton_ads.bench.target_searches import OurSearch, Prompted, time_searches
from triton_ads.bench.target_trees import random_tree, shaped_tree
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.calibrate import calibrate, forward_ms
from triton_ads.serving.target.packed import PackedTreeDecoder


@pytest.mark.parametrize("branching", [(5, 3, 2), (1, 1, 4), (50, 1, 1)])
def test_every_node_of_a_level_has_as_many_children_as_asked(branching: tuple[int, ...]) -> None:
    tree = shaped_tree(branching, 100)
    starts = tree.level_start
    for level, width in enumerate(branching):
        low, high = tree.bounds(np.arange(starts[level], starts[level + 1]))
        assert set((high - low).tolist()) == {width}
    assert tree.ads == np.prod(branching)


def test_random_identifiers_differ_and_avoid_the_special_tokens() -> None:
    tree = random_tree(3000, 3, 40)
    assert (tree.ads, tree.length) == (3000, 3)
    assert 4 <= int(tree.token.min()) <= int(tree.token.max()) < 40
    assert random_tree(3000, 3, 40).catalogue == tree.catalogue


def test_searches_that_are_timed_find_the_same_behind_a_prompt_as_with_it_and_together_as_alone() -> None:
    tree = random_tree(2000, 4, 101)
    decoder = PackedTreeDecoder(Decoder(random_model(config_of())), 20, 400)
    prompts = [np.random.default_rng(seed).integers(4, 101, 10 + seed) for seed in range(4)]
    ours = OurSearch(decoder, tree, calibrate(decoder, 20, 8), beam=8)
    alone = ours.one_by_one(prompts)
    behind = [Prompted.of(decoder, prompt) for prompt in prompts]
    for _ in range(2):  # a session is used again
        for found in (ours.together(prompts), [ours.after(prompted) for prompted in behind]):
            assert [one.node_B.tolist() for one in found] == [one.node_B.tolist() for one in alone]
    stepping = OurSearch(decoder, tree, calibrate(decoder, 20, 8), at=0, beam=8)
    assert [one.node_B.tolist() for one in stepping.one_by_one(prompts)] == [one.node_B.tolist() for one in alone]
    timings = time_searches({"trigger": ours, "stepping": stepping}, behind, rounds=3)
    assert timings.rounds == 3 and all((ms > 0).all() for ms in timings.ms.values())
    assert forward_ms(decoder, 20, [1, 5, 9], 2).shape == (2, 3)


def test_the_part_of_the_constraint_reports_every_tree_and_both_claims() -> None:
    parser = argparse.ArgumentParser()
    target.configure(parser)
    report = target.run(parser.parse_args(["--parts", "constraint", "--ads", "2000", "--largest-tree", "3000"]))
    names = [(row.name, row.contender) for row in report.rows]
    assert names[:3] == [("constraint step, level 2", f"{ads} ads") for ads in (20_000, 2_000, 3_000)]
    assert [contender for _, contender in names[3:]] == ["0 of a request", "10 of a request", "100 of a request"]
    assert [claim.target for claim in report.claims] == [50, 1.15]
