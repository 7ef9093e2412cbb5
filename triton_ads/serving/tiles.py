"""Tiles: the candidates of many requests as rows of one batch, each tile the candidates of one user.

    requests of 3, 5 and 1 candidates, tiles of P = 4

        tile 0   a0 a1 a2 .      user_of_tile = [0, 1, 1, 2]
        tile 1   b0 b1 b2 b3
        tile 2   b4 .  .  .      .  padding: below one tile per request
        tile 3   c0 .  .  .

Because a tile has one user, the item part broadcasts the user over P rows by its own arithmetic, and the user's
values are copied once per tile instead of once per candidate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# M candidates of all requests, C tiles, P candidates in a tile, R = C x P rows of a batch, F columns, K labels

#: A shorter tile is a multiple of this, which fills the vector registers of a CPU's matrix product.
STEP = 8
#: What a tile costs beside its rows, in rows: its user's values are copied to it. Measured on hyformer at T = 50: 8
#: tiles of 8 take the time of one of 64; at T = 512 a copy of the history's keys and values takes that of a row or two.
TILE_ROWS = 2


@dataclass(frozen=True)
class Piece:
    """Consecutive candidates of one request, in consecutive tiles of one run."""

    request: int
    start: int  # first candidate, counted over all requests
    count: int
    tile: int  # the tile in which the first one stands

    def tiles(self, size: int) -> int:
        return -(-self.count // size)


@dataclass(frozen=True)
class Run:
    """What one run of the engine scores."""

    size: int  # P
    tiles: int  # C
    pieces: tuple[Piece, ...]


def tile_size(lengths: Sequence[int], tile: int) -> int:
    """P for an engine that takes any: the one of least padding, the recipe's `tile` at most.

    >>> tile_size([3, 17], 64), tile_size([65], 64), tile_size([1000], 64)
    (8, 24, 56)
    """
    best, least = tile, None
    for size in (tile, *range((tile - 1) // STEP * STEP, 0, -STEP)):
        cost = sum(-(-length // size) for length in lengths) * (size + TILE_ROWS)
        if least is None or cost < least:
            best, least = size, cost
    return best


def plan(lengths: Sequence[int], size: int, largest: int) -> list[Run]:
    """Cut requests of `lengths` candidates into tiles of `size`, and these into runs of at most `largest` tiles.

    A request that does not fit in what is left of a run goes on in the next one: only its last tile has padding.

    >>> [(run.tiles, [(p.request, p.start, p.count, p.tile) for p in run.pieces]) for run in plan([3, 5, 1], 4, 2)]
    [(2, [(0, 0, 3, 0), (1, 3, 4, 1)]), (2, [(1, 7, 1, 0), (2, 8, 1, 1)])]
    """
    runs: list[Run] = []
    pieces: list[Piece] = []
    filled = start = 0
    for request, length in enumerate(lengths):
        end = start + length
        while start < end:
            if filled == largest:
                runs.append(Run(size, filled, tuple(pieces)))
                pieces, filled = [], 0
            piece = Piece(request, start, min(end - start, (largest - filled) * size), filled)
            pieces.append(piece)
            filled += piece.tiles(size)
            start += piece.count
    if pieces:
        runs.append(Run(size, filled, tuple(pieces)))
    return runs


def pack(run: Run, source_MF: NDArray[Any], rows_RF: NDArray[Any]) -> None:
    """Write a run's candidates to their rows, and zeros (PAD) to the rows between them and after them."""
    for piece in run.pieces:
        first = piece.tile * run.size
        last = first + piece.count
        rows_RF[first:last] = source_MF[piece.start : piece.start + piece.count]
        rows_RF[last : (piece.tile + piece.tiles(run.size)) * run.size] = 0
    rows_RF[run.tiles * run.size :] = 0


def pack_users(run: Run, user_of_tile_C: NDArray[np.int64]) -> None:
    """Write the request of every tile; a tile beyond the run's belongs to request 0."""
    for piece in run.pieces:
        user_of_tile_C[piece.tile : piece.tile + piece.tiles(run.size)] = piece.request
    user_of_tile_C[run.tiles :] = 0


def unpack(run: Run, scores_RK: NDArray[np.float32], target_MK: NDArray[np.float32]) -> None:
    """Write the scores of a run's candidates to their places among all candidates."""
    for piece in run.pieces:
        first = piece.tile * run.size
        target_MK[piece.start : piece.start + piece.count] = scores_RK[first : first + piece.count]
