"""Adaptive groups: bytes as packed, sensitive channels first, as good as any other choice of the same bytes."""

from itertools import product

import numpy as np
import pytest

from triton_ads.compression.allocate import BudgetError
from triton_ads.compression.groups import allocate_groups, matrix_bytes, tile_options, uniform_size, useful_sizes
from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.compression.quantised import round_to_nearest


@pytest.mark.parametrize(
    ("pattern", "columns", "sizes"),
    [
        (Pattern.DENSE, 1536, (32, 64, 128, 256)),
        (Pattern.DENSE, 576, (32, 64)),  # 128 pads to 640 columns, 256 to 768
        (Pattern.ONE_OF_FOUR, 576, (64,)),
        (Pattern.ONE_OF_FOUR, 1536, (64, 128, 256)),
        (Pattern.TWO_OF_FOUR, 20, (32,)),
    ],
)
def test_sizes_that_are_worth_their_padding(pattern: Pattern, columns: int, sizes: tuple[int, ...]) -> None:
    assert useful_sizes(pattern, columns) == sizes


def test_uniform_sizes_give_way_where_they_would_pad() -> None:
    assert uniform_size(Pattern.DENSE, 1536, 128) == 128
    assert uniform_size(Pattern.DENSE, 576, 128) == 64
    assert uniform_size(Pattern.ONE_OF_FOUR, 1536, 32) == 64


@pytest.mark.parametrize("pattern", list(Pattern))
@pytest.mark.parametrize("shape", [(64, 576), (40, 100), (1, 1)])
def test_bytes_are_those_of_the_packed_matrix(pattern: Pattern, shape: tuple[int, int]) -> None:
    weight_NK = np.random.default_rng(0).standard_normal(shape)
    for size in pattern.group_sizes:
        packed = pack(round_to_nearest(weight_NK, pattern, size))
        assert matrix_bytes(pattern, Values.INT4, shape, size) == packed.nbytes
    options = tile_options(pattern, shape, lambda size: np.zeros(shape[0], np.float32))
    sizes = allocate_groups({"w": (pattern, shape)}, {"w": options}, 10**9)["w"]
    packed = pack(round_to_nearest(weight_NK, pattern, sizes))
    assert packed.nbytes == min(matrix_bytes(pattern, Values.INT4, shape, size) for size in pattern.group_sizes)


def test_mixed_sizes_of_whole_tiles_need_no_order_of_rows() -> None:
    weight_NK = np.random.default_rng(0).standard_normal((100, 256))
    size_N = np.repeat(np.uint16([64, 32, 256, 64]), 32)[:100]
    packed = pack(round_to_nearest(weight_NK, Pattern.DENSE, size_N))
    assert packed.row_order is None
    assert packed.group_size_T.tolist() == [64, 32, 256, 64]


def test_sensitive_channels_get_more_groups() -> None:
    """Four tiles of one matrix, the third a thousand times as sensitive; budget for one finer tile."""
    loss_N = np.repeat([1.0, 1.0, 1000.0, 1.0], 32)
    options = tile_options(Pattern.DENSE, (128, 576), lambda size: loss_N * (size / 32) ** 2)
    budget = matrix_bytes(Pattern.DENSE, Values.INT4, (128, 576), 64) + 576
    size_N = allocate_groups({"w": (Pattern.DENSE, (128, 576))}, {"w": options}, budget)["w"]
    assert size_N[::32].tolist() == [64, 64, 32, 64]


def test_as_good_as_any_other_choice_of_the_same_bytes() -> None:
    rng = np.random.default_rng(5)
    shapes = {"a": (Pattern.DENSE, (60, 1536)), "b": (Pattern.TWO_OF_FOUR, (64, 576))}
    losses = {}
    for name, (_, (rows, _)) in shapes.items():
        # Losses of a finer group are lower, by amounts that shrink: rounding errors go with the square of the step.
        steps = {size: np.float32(np.sqrt(size)) for size in (32, 64, 128, 256)}
        weight_N = rng.exponential(size=rows).astype(np.float32)
        losses[name] = lambda size, weight_N=weight_N, steps=steps: weight_N * steps[size]
    options = {name: tile_options(pattern, shape, losses[name]) for name, (pattern, shape) in shapes.items()}
    tiles = [tile for name in shapes for tile in options[name]]
    combinations = [(sum(one.cost for one in chosen), sum(one.loss for one in chosen)) for chosen in product(*tiles)]
    for budget in sorted({cost for cost, _ in combinations}):
        sizes = allocate_groups(shapes, options, budget)
        cost = loss = 0.0
        for name, (pattern, (_, columns)) in shapes.items():
            for tile, size in enumerate(sizes[name][::32].tolist()):
                option = options[name][tile][useful_sizes(pattern, columns).index(size)]
                cost, loss = cost + option.cost, loss + option.loss
        assert cost <= budget
        assert loss <= min(other for spent, other in combinations if spent <= cost) + 1e-6


def test_coarser_than_the_coarsest_is_refused() -> None:
    options = tile_options(Pattern.DENSE, (32, 64), lambda size: np.ones(32, np.float32))
    with pytest.raises(BudgetError, match="a budget of 100 bytes; 1,090 to 1,154 bytes are possible"):
        allocate_groups({"w": (Pattern.DENSE, (32, 64))}, {"w": options}, 100)
