"""What was scored, as layers and flat; and two verifications of one search on the decoder that is served."""

import numpy as np
import pytest

from tests.support.random_llama import config_of, random_model
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.layers import Layer, best_leaves, flattened, layered, survivors, within, without
from triton_ads.serving.target.packed import PackedTreeDecoder
from triton_ads.serving.target.search import Found, search
from triton_ads.serving.target.together import Request, run_together
from triton_ads.serving.target.trigger import ForwardCost, Trigger
from triton_ads.trie import Blocked, Withheld, build_tree

#       0 root -- 1 (token 1) -- 3 (token 5, ad 10)
#                            \-- 4 (token 6, ad 11)
#            \--- 2 (token 2) -- 5 (token 5, ad 12)
TREE = build_tree([[1, 5], [1, 6], [2, 5]], [10, 11, 12])
LAYERS = [
    survivors(np.array([2, 1]), np.array([-1.0, -2.0])),
    Layer(np.array([5, 3, 4]), np.array([-3.0, -0.5, -1.0]), np.array([0, 1, 1])),
]


def same(found: list[Layer], expected: list[Layer]) -> None:
    assert [(one.node.tolist(), one.logp.tolist(), one.parent.tolist()) for one in found] == [
        (one.node.tolist(), one.logp.tolist(), one.parent.tolist()) for one in expected
    ]


def test_log_probabilities_add_up_from_parent_to_child() -> None:
    node, score = best_leaves(TREE, LAYERS, 2, "exact")
    assert (TREE.ad_of(node).tolist(), score.tolist()) == ([10, 11], [-2.5, -3.0])


def test_flat_and_back() -> None:
    node, parent, logp = flattened(LAYERS)
    assert (node.tolist(), parent.tolist()) == ([2, 1, 5, 3, 4], [-1, -1, 0, 1, 1])
    same(layered(node, parent, logp), LAYERS)
    same(layered(node[:2], parent[:2], logp[:2]), LAYERS[:1])
    same(layered(node[:0], parent[:0], logp[:0]), [survivors(node[:0], logp[:0])])


@pytest.mark.parametrize("parents", [[-1, 0, -1, 0, 1], [-1, -1, 2, 1, 1], [-1, -1, 0, 2, 1], [-1, -1, 0, 1, -2]])
def test_parents_that_make_no_layers_are_refused(parents: list[int]) -> None:
    with pytest.raises(ValueError, match="parents"):
        layered(np.arange(1, 6), np.array(parents), np.zeros(5))


def test_what_the_tree_does_not_have_is_left_out() -> None:
    strange = [
        survivors(np.array([0, 2, 99, 1]), np.zeros(4)),
        Layer(np.array([5, 5, 3, 3, 4]), np.arange(5.0), np.array([0, 1, 1, 3, 3])),
    ]
    same(
        within(TREE, strange),
        [
            survivors(np.array([2, 1]), np.zeros(2)),
            Layer(np.array([5, 3, 4]), np.array([1.0, 3, 4]), np.array([0, 1, 1])),
        ],
    )


def test_ads_that_are_withheld_are_left_out() -> None:
    node, _ = best_leaves(TREE, without(LAYERS, Withheld(Blocked(TREE), np.array([10, 77]))), 3, "beam")
    assert TREE.ad_of(node).tolist() == [11, 12]


def test_a_second_verification_stands_on_the_first() -> None:
    """The trigger expects too little to matter, so that some survivors are verified in a second forward."""
    random = np.random.default_rng(0)
    identifiers = np.unique(random.integers([0, 0, 40], [30, 50, 100], (300, 3)), axis=0)
    tree = build_tree(identifiers, range(len(identifiers)))
    decoder = PackedTreeDecoder(Decoder(random_model(config_of())), 16, 2000)

    def found(trigger: Trigger, prompt: list[int]) -> Found:
        session = decoder.session(np.array(prompt))
        request = Request(session, search(tree, Blocked(tree), trigger, 8, "beam"))
        run_together(decoder, [request])
        decoder.release(session)
        assert request.found is not None
        return request.found

    hopeful = Trigger(tree, ForwardCost(1, 0), at=1)
    for _ in range(64):
        hopeful.confidence.saw(1, 0.0, -0.01)
    twice = 0
    for seed in range(6):
        prompt = random.integers(0, 100, 10).tolist()
        expected = found(Trigger(tree, ForwardCost(1, 1), at=0), prompt)
        verified = found(hopeful, prompt)
        hopeful.confidence._gaps[1].clear()
        for _ in range(64):
            hopeful.confidence.saw(1, 0.0, -0.01)
        twice += verified.forwards > 1
        assert verified.node_B.tolist() == expected.node_B.tolist(), seed
        # 1e-4: float32, summed in another order.
        np.testing.assert_allclose(verified.score_B, expected.score_B, atol=1e-4)
    assert twice
