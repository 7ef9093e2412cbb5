"""Six rankers that the compiler was not made for: same scores in eager and in ONNX Runtime, and what is shared."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from triton_ads.bench.graphs import SplitGraphs
from triton_ads.bench.rankers import RANKERS
from triton_ads.split import check_parity, check_row_independence
from triton_ads.split.report import SplitReport, report

TOLERANCE = 1e-5  # of probabilities: sums of some hundred float32 terms in another order

#: users, tiles, candidates of a tile
LAYOUTS = {
    "one user, one candidate": (1, 1, 1),
    "one user, one tile": (1, 1, 64),
    "one user, several tiles": (1, 5, 7),
    "a candidate for each user": (6, 6, 1),
    "several users, tiles in any order": (4, 9, 5),
    "users without a tile": (6, 2, 3),
}


@cache
def built(name: str) -> tuple[nn.Module, SplitGraphs]:
    ranker = RANKERS[name]
    module = ranker.module()
    return module, SplitGraphs.of(module, ranker.draw(12), ranker.sides)


@cache
def reported(name: str) -> SplitReport:
    _, graphs = built(name)
    return report(graphs.parts, RANKERS[name].draw(4))


def drawn(name: str, users: int, tiles: int, candidates: int) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
    """Users [B, ...], user_of_tile [C], items [C, P, ...]. The first user has no history, the second a full one."""
    ranker = RANKERS[name]
    rows = {key: tensor[:users] for key, tensor in ranker.draw(max(users, 2), seed=5).items()}
    items = ranker.draw(tiles * candidates, seed=6)
    user_of_tile = torch.randint(0, users, (tiles,), generator=torch.Generator().manual_seed(tiles))
    user = {key: tensor for key, tensor in rows.items() if ranker.sides[key] == "user"}
    item = {key: t.unflatten(0, (tiles, candidates)) for key, t in items.items() if ranker.sides[key] == "item"}
    return user, user_of_tile, item


def row_wise(module: nn.Module, user: dict[str, Tensor], user_of_tile: Tensor, item: dict[str, Tensor]) -> Tensor:
    """The model itself, on every pair of a tile's user and a candidate: [C, P, K]."""
    tiles, candidates = next(iter(item.values())).shape[:2]
    rows = {key: tensor[user_of_tile].repeat_interleave(candidates, 0) for key, tensor in user.items()}
    with torch.no_grad():
        return module(**rows, **{key: tensor.flatten(0, 1) for key, tensor in item.items()}).unflatten(
            0, (tiles, candidates)
        )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", RANKERS)
def test_parts_give_the_models_scores_in_eager_and_in_onnx(name: str, layout: str) -> None:
    module, graphs = built(name)
    user, user_of_tile, item = drawn(name, *LAYOUTS[layout])
    expected = row_wise(module, user, user_of_tile, item).numpy()
    with torch.no_grad():
        eager = graphs.parts.run({**user, **item}, user_of_tile).numpy()
    served = graphs.run(
        {key: tensor.numpy() for key, tensor in user.items()},
        user_of_tile.numpy(),
        {key: tensor.numpy() for key, tensor in item.items()},
    )
    np.testing.assert_allclose(eager, expected, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(served, expected, rtol=0, atol=TOLERANCE)
    if expected.shape[0] * expected.shape[1] >= 20:  # the comparison would see a user or an item that is mixed up
        assert expected.std() > 100 * TOLERANCE


@pytest.mark.parametrize("name", RANKERS)
def test_the_checks_of_a_build_pass(name: str) -> None:
    module, graphs = built(name)
    rows = RANKERS[name].draw(6, seed=3)
    assert check_row_independence(module, rows) <= TOLERANCE
    assert check_parity(module, graphs.parts, rows) <= TOLERANCE


@pytest.mark.parametrize("name", ["din", "target_attention", "mixed_tokens"])
def test_an_empty_history_and_its_neighbours(name: str) -> None:
    """Users without events in one batch with others: finite scores, and those that the user has alone."""
    module, graphs = built(name)
    user, _, item = drawn(name, 4, 4, 3)
    user["history_ids"][[0, 2]] = 0
    with torch.no_grad():
        together = graphs.parts.run({**user, **item}, torch.arange(4))
        one = {key: tensor[2:3] for key, tensor in {**user, **item}.items()}
        alone = graphs.parts.run(one, torch.zeros(1, dtype=torch.int64))
    assert torch.isfinite(together).all()
    torch.testing.assert_close(together[2], alone[0], rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(together, row_wise(module, user, torch.arange(4), item), rtol=0, atol=TOLERANCE)


def test_din_reads_zero_from_an_empty_history() -> None:
    """With no event the interest is a zero vector, whatever padding looks like."""
    module, _ = built("din")
    user, _, item = drawn("din", 2, 1, 1)
    assert not user["history_ids"][0].any()
    seen: list[Tensor] = []
    handle = module.mlp.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    row_wise(module, {key: tensor[:1] for key, tensor in user.items()}, torch.tensor([0]), item)
    handle.remove()
    interest = seen[0][:, 8 * 32 : 8 * 32 + 64]
    assert not interest.any()


#: What is left of a row's multiply-adds per candidate, at most: counted, so that a rule that is lost shows.
LEFT = {"din": 0.38, "dlrm": 0.75, "target_attention": 0.04, "mixed_tokens": 0.89, "deepfm": 0.80, "mmoe": 0.45}


@pytest.mark.parametrize("name", RANKERS)
def test_what_is_left_for_every_candidate(name: str) -> None:
    counted = reported(name)
    assert counted.flops_item <= LEFT[name] * counted.flops_row


@pytest.mark.parametrize("name", RANKERS)
def test_what_is_copied_for_every_candidate(name: str) -> None:
    copied = {entry["operator"] for entry in reported(name).unshared}
    # user tokens attend to item tokens from the first layer on: their queries, keys and values meet in one product
    assert copied == ({"aten.matmul.default"} if name == "mixed_tokens" else set())


def test_keys_and_values_of_a_history_are_read_once_per_tile() -> None:
    """The item part of target attention holds no value with candidates x events x width elements."""
    _, graphs = built("target_attention")
    user, user_of_tile, item = drawn("target_attention", 2, 3, 8)
    largest = 0

    class Largest(torch.fx.Interpreter):
        def run_node(self, node: torch.fx.Node) -> object:
            nonlocal largest
            result = super().run_node(node)
            if isinstance(result, Tensor) and node.op == "call_function":
                largest = max(largest, result.numel())
            return result

    with torch.no_grad():
        state = graphs.parts.user(*user.values())
        Largest(graphs.parts.item).run(state, user_of_tile, *item.values())  # type: ignore[arg-type]
    events, width = 50, 64
    assert largest <= max(3 * 8 * 256, 3 * (2 * events * width + graphs.parts.state_size))  # tiles, not rows
