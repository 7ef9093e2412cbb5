"""The trees of the benchmark are what their names say; its whole run takes minutes and is not a test."""

import numpy as np
import pytest

from triton_ads.bench.target_trees import random_tree, shaped_tree


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
