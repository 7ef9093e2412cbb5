"""The searches on the real decoder: beam search as Hugging Face's `generate` does it, and brute force."""

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from tests.support.random_llama import THETA, config_of, random_model
from triton_ads.bench.hugging_face_llama import hugging_face
from triton_ads.bench.target_peers import HuggingFaceBeams
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.best_first import best_first
from triton_ads.serving.target.calibrate import calibrate
from triton_ads.serving.target.packed import PackedTreeDecoder
from triton_ads.serving.target.search import Found, Search, search
from triton_ads.serving.target.together import Request, run_together
from triton_ads.serving.target.trigger import ForwardCost, Trigger
from triton_ads.trie import Blocked, Tree, build_tree

VOCABULARY, LENGTH, BEAM = 101, 4, 8
MODEL = random_model(config_of(vocabulary=VOCABULARY), seed=3)


def decoder() -> PackedTreeDecoder:
    return PackedTreeDecoder(Decoder(MODEL), 40, 4000, cache="float32")


@pytest.fixture(scope="module")
def reference() -> LlamaForCausalLM:
    return hugging_face(MODEL, THETA)


def random_tree(seed: int, ads: int) -> Tree:
    random = np.random.default_rng(seed)
    ids = np.unique(random.integers(1, VOCABULARY, (ads, LENGTH)), axis=0)
    ids[:, 0] = 1 + ids[:, 0] % 12  # so that branches are shared
    ids = np.unique(ids, axis=0)
    return build_tree(ids, np.arange(len(ids)))


def random_prompt(seed: int) -> np.ndarray:
    random = np.random.default_rng(1000 + seed)
    return random.integers(0, VOCABULARY, random.integers(2, 30))


def run(one: Search, prompt: np.ndarray, tree_decoder: PackedTreeDecoder) -> Found:
    request = Request(tree_decoder.session(prompt), one)
    run_together(tree_decoder, [request])
    tree_decoder.release(request.session)
    assert request.found is not None
    return request.found


def brute_force(model: LlamaForCausalLM, tree: Tree, prompt: np.ndarray) -> np.ndarray:
    """Log-probability of every ad, in the order of `tree.leaf`."""
    ids = torch.tensor(tree.identifiers())
    tokens = torch.cat([torch.from_numpy(prompt)[None].expand(len(ids), -1), ids], dim=1)
    with torch.inference_mode():
        logp = torch.log_softmax(model(tokens).logits[:, len(prompt) - 1 : -1], dim=-1)
    return logp.gather(2, ids[:, :, None])[:, :, 0].sum(dim=1).numpy()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("at", [0, 1, 2, None])
def test_beam_mode_finds_what_generate_finds(reference: LlamaForCausalLM, seed: int, at: int | None) -> None:
    tree, prompt = random_tree(seed, 150), random_prompt(seed)
    peer = HuggingFaceBeams(reference, tree, BEAM)
    expected = peer.documented(prompt) if seed % 2 else peer.prefilled(prompt)
    trigger = Trigger(tree, ForwardCost(1, 0.1), at=at)
    found = run(search(tree, Blocked(tree), trigger, BEAM, "beam"), prompt, decoder())
    got = {tuple(tree.path(int(n))): float(s) for n, s in zip(found.node_B, found.score_B, strict=True)}
    assert got.keys() == expected.keys()
    for identifier, score in got.items():
        assert score == pytest.approx(expected[identifier], abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_global_mode_is_brute_force(reference: LlamaForCausalLM, seed: int) -> None:
    tree, prompt = random_tree(seed, 150), random_prompt(seed)
    scores = brute_force(reference, tree, prompt)
    best = np.argsort(-scores)[:BEAM]
    found = run(best_first(tree, Blocked(tree), BEAM), prompt, decoder())
    assert found.node_B.tolist() == tree.leaf[best].tolist()
    np.testing.assert_allclose(found.score_B, scores[best], atol=1e-4)


def test_fewer_ads_than_beams(reference: LlamaForCausalLM) -> None:
    """Hugging Face answers duplicates and identifiers that do not exist here; every ad once is right."""
    tree = build_tree([[5, 7, 9], [5, 7, 8], [6, 1, 1], [6, 2, 1], [7, 7, 7]], [50, 51, 52, 53, 54])
    prompt = random_prompt(0)
    scores = brute_force(reference, tree, prompt)
    for mode in ("beam", "exact"):
        found = run(search(tree, Blocked(tree), Trigger(tree, ForwardCost(1, 0.1)), 20, mode), prompt, decoder())  # type: ignore[arg-type]
        assert found.node_B.tolist() == tree.leaf[np.argsort(-scores)].tolist()
        assert sorted(tree.ad_of(found.node_B).tolist()) == [50, 51, 52, 53, 54]
        np.testing.assert_allclose(found.score_B, np.sort(scores)[::-1], atol=1e-4)


def test_memory_is_used_again_and_nothing_of_it_is_left() -> None:
    tree, tree_decoder = random_tree(0, 150), decoder()
    trigger = Trigger(tree, ForwardCost(1, 0.1), at=1)
    alone = [run(search(tree, Blocked(tree), trigger, BEAM, "beam"), random_prompt(s), decoder()) for s in range(4)]
    again = [run(search(tree, Blocked(tree), trigger, BEAM, "beam"), random_prompt(s), tree_decoder) for s in range(4)]
    for one, other in zip(alone, again, strict=True):
        assert one.node_B.tolist() == other.node_B.tolist()
        assert one.score_B.tolist() == other.score_B.tolist()


def test_prompts_that_cannot_be() -> None:
    for length in (0, 41):
        with pytest.raises(ValueError, match=f"prompt: {length} tokens found, 1 to 40 allowed"):
            decoder().session(np.zeros(length, np.int64))


def test_calibration_gives_a_line() -> None:
    cost = calibrate(decoder(), 20, 4)
    assert cost.fixed_ms >= 0 and cost.token_ms > 0
    assert cost(10) > cost(1)
