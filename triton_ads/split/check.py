"""The checks that a build must pass: the model is row-wise, and its parts equal it."""

import traceback
from collections.abc import Mapping

import torch
from torch import nn

from triton_ads.split.compile import Split
from triton_ads.split.locate import last_line, where_rows_meet

#: Greatest difference in a score (a probability) that two orders of summation in float32 may make.
TOLERANCE = 1e-5


class SplitMismatchError(ValueError):
    """A check that did not pass; the message gives the difference found and the bound."""


@torch.no_grad()
def check_row_independence(
    module: nn.Module, inputs: Mapping[str, torch.Tensor], tolerance: float = TOLERANCE
) -> float:
    """A row's score must not change with its neighbours: rows alone, reversed, and with others as neighbours.

    Args:
        inputs: [M, ...] each, M >= 3, rows that differ.

    Returns:
        The greatest difference found.

    Raises:
        SplitMismatchError: the model mixes rows (a batch norm in training mode, a mean over the batch, ...).
    """
    whole = _scores(module, inputs, "all rows")
    rows = len(whole)

    def among(what: str, chosen: list[int]) -> torch.Tensor:
        return _scores(module, {name: tensor[chosen] for name, tensor in inputs.items()}, what)

    neighbours = {
        "a row alone": torch.cat([among("a row alone", [row]) for row in range(min(rows, 8))]),
        "rows in reverse": among("rows in reverse", list(range(rows))[::-1]).flip(0),
        "every row twice": among("every row twice", [row for row in range(rows) for _ in (0, 1)])[::2],
        "without the last row": among("without the last row", list(range(rows - 1))),
    }
    worst = 0.0
    try:
        for name, scores in neighbours.items():
            what = f"the model is not row-wise: {name}"
            worst = max(worst, _difference(what, whole[: len(scores)], scores, tolerance))
    except SplitMismatchError as error:
        where = where_rows_meet(module, inputs)
        raise SplitMismatchError(f"{error}; rows first meet at {where}" if where else str(error)) from None
    return worst


@torch.no_grad()
def check_parity(
    module: nn.Module, parts: Split, inputs: Mapping[str, torch.Tensor], tolerance: float = TOLERANCE
) -> float:
    """The parts must give the model's scores: one user with all candidates, every user with few, users in any order.

    Args:
        inputs: [M, ...] each, M >= 2: the user side of row m is taken as user m, its item side as candidates.

    Raises:
        SplitMismatchError: the parts differ from the model by more than `tolerance`.
    """
    rows = len(next(iter(inputs.values())))
    every = torch.arange(rows)
    layouts = {
        "one user, one tile": (torch.zeros(1, dtype=torch.int64), every.reshape(1, rows)),
        "one user, tiles of one candidate": (torch.zeros(rows, dtype=torch.int64), every.reshape(rows, 1)),
        "each user one candidate": (every, every.reshape(rows, 1)),
        "users in reverse, two tiles each": (
            every.flip(0).repeat(2),
            torch.stack([every, every.flip(0)], 1).repeat(2, 1),
        ),
    }
    worst = 0.0
    for name, (user_of_tile, item_rows_CP) in layouts.items():
        tiles, candidates = item_rows_CP.shape
        items = {key: inputs[key][item_rows_CP.reshape(-1)] for key in parts.item_inputs}
        users = {key: inputs[key] for key in parts.user_inputs}
        tiled = {key: value.reshape(tiles, candidates, *value.shape[1:]) for key, value in items.items()}
        scores = parts.run({**users, **tiled}, user_of_tile)
        row_users = user_of_tile.repeat_interleave(candidates)
        expected = module(**{key: value[row_users] for key, value in users.items()}, **items)
        got = scores.flatten(0, 1)
        worst = max(worst, _difference(f"the parts differ from the model: {name}", expected, got, tolerance))
    return worst


def _scores(module: nn.Module, inputs: Mapping[str, torch.Tensor], what: str) -> torch.Tensor:
    """The model's scores; an error of its own is told as one of this check, with the line."""
    try:
        scores: torch.Tensor = module(**inputs)
    except Exception as error:  # whatever a model raises
        line = last_line(traceback.extract_tb(error.__traceback__))
        raise SplitMismatchError(f"{line}: the model fails for {what}: {type(error).__name__}: {error}") from error
    return scores


def _difference(what: str, expected: torch.Tensor, got: torch.Tensor, tolerance: float) -> float:
    if expected.shape != got.shape:
        raise SplitMismatchError(f"{what}: scores of shape {list(got.shape)}, expected {list(expected.shape)}")
    difference = float((expected - got).abs().max()) if expected.numel() else 0.0
    if not difference <= tolerance:  # also refuses NaN
        raise SplitMismatchError(f"{what}: scores differ by {difference:.2e}, allowed {tolerance:.0e}")
    return difference
