"""Tiles against brute force: a loop over candidates, one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.serving.tiles import STEP, TILE_ROWS, Piece, Run, pack, pack_users, plan, tile_size, unpack

lengths = st.lists(st.integers(1, 70), min_size=1, max_size=12)
sizes = st.sampled_from([1, 3, 8, 16])
largest = st.integers(1, 9)


def places(runs):
    """Where every candidate goes, as (run, row), in the order of the candidates: what `runs` says, read naively."""
    found = {}
    for number, run in enumerate(runs):
        for piece in run.pieces:
            for i in range(piece.count):
                assert piece.start + i not in found, "a candidate is placed twice"
                found[piece.start + i] = (number, piece.tile * run.size + i)
    return [found[i] for i in range(len(found))]


def test_a_worked_example():
    """3, 5 and 1 candidates in tiles of 4, at most 2 tiles a run: the picture at the head of tiles.py, in two goes."""
    assert plan([3, 5, 1], 4, 2) == [
        Run(4, 2, (Piece(0, 0, 3, 0), Piece(1, 3, 4, 1))),
        Run(4, 2, (Piece(1, 7, 1, 0), Piece(2, 8, 1, 1))),
    ]
    assert plan([3, 5, 1], 4, 8) == [Run(4, 4, (Piece(0, 0, 3, 0), Piece(1, 3, 5, 1), Piece(2, 8, 1, 3)))]


def test_packed_rows_of_the_worked_example():
    (run,) = plan([3, 5, 1], 4, 8)
    rows_RF = np.full((20, 1), 99)  # one tile more than needed, as in a bucket
    user_of_tile_C = np.full(5, 99)
    pack(run, np.arange(10, 19)[:, None], rows_RF)
    pack_users(run, user_of_tile_C)
    assert rows_RF[:, 0].tolist() == [10, 11, 12, 0, 13, 14, 15, 16, 17, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0]
    assert user_of_tile_C.tolist() == [0, 1, 1, 2, 0]


@pytest.mark.parametrize(
    ("candidates", "tiles"), [(1, 1), (63, 1), (64, 1), (65, 2), (2000, 32), (2048, 32), (2049, 32), (5000, 32)]
)
def test_edges_of_the_default_tile(candidates, tiles):
    runs = plan([candidates], 64, 32)
    assert runs[0].tiles == tiles
    assert sum(piece.count for run in runs for piece in run.pieces) == candidates
    assert len(runs) == -(-candidates // 2048)


@given(lengths, sizes, largest)
def test_every_candidate_has_one_place_in_a_tile_of_its_user(lengths, size, largest):
    runs = plan(lengths, size, largest)
    owner = [request for request, n in enumerate(lengths) for _ in range(n)]
    where = places(runs)
    assert len(where) == len(owner) == len(set(where))
    assert where == sorted(where), "candidates keep their order"
    assert all(1 <= run.tiles <= largest for run in runs)
    user_of_tile = []
    for run in runs:
        users_C = np.full(run.tiles, -1)
        pack_users(run, users_C)
        user_of_tile.append(users_C)
    for request, (number, row) in zip(owner, where, strict=True):
        assert user_of_tile[number][row // size] == request


@given(lengths, sizes, largest)
def test_padding_is_below_one_tile_per_request(lengths, size, largest):
    rows = sum(run.tiles * size for run in plan(lengths, size, largest))
    assert rows == sum(-(-n // size) * size for n in lengths)


@given(lengths, sizes, largest)
def test_what_is_packed_is_what_is_unpacked(lengths, size, largest):
    total = sum(lengths)
    source_MF = np.arange(1, total * 2 + 1).reshape(total, 2)
    scores_MK = np.zeros((total, 2), np.float32)
    runs = plan(lengths, size, largest)
    where = places(runs)
    for number, run in enumerate(runs):
        rows_RF = np.full(((run.tiles + 1) * size, 2), -7)
        pack(run, source_MF, rows_RF)
        filled = {row: candidate for candidate, (n, row) in enumerate(where) if n == number}
        for row in range(len(rows_RF)):
            expected = source_MF[filled[row]] if row in filled else 0
            assert np.array_equal(rows_RF[row], np.broadcast_to(expected, 2))
        unpack(run, rows_RF.astype(np.float32), scores_MK)
    np.testing.assert_array_equal(scores_MK, source_MF)


@pytest.mark.parametrize(
    ("lengths", "size"),
    [
        ([1], 8),
        ([8], 8),
        ([9], 16),
        ([57], 64),
        ([64], 64),
        ([65], 24),  # three tiles of 24 instead of two of 64
        ([1, 64], 16),
        ([256], 64),
        ([2000], 56),
        ([500, 2], 24),
        ([1] * 64, 8),
    ],
)
def test_the_tile_of_least_padding(lengths, size):
    assert tile_size(lengths, 64) == size


@pytest.mark.parametrize(("longest", "size"), [(11, 12), (3, 8), (57, 12), (64, 8)])
def test_a_recipe_s_tile_that_is_no_multiple_of_the_step(longest, size):
    assert tile_size([longest], 12) == size


@given(lengths, st.sampled_from([1, 7, 8, 20, 64]))
def test_no_other_size_costs_less(lengths, tile):
    def cost(size):
        return sum(run.tiles * (size + TILE_ROWS) for run in plan(lengths, size, 10**6))

    allowed = {tile, *range(STEP, tile, STEP)}
    assert tile_size(lengths, tile) in allowed
    assert cost(tile_size(lengths, tile)) == min(map(cost, allowed))
