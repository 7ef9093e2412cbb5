"""`split`: from a row-wise module to its two parts."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from triton_ads.split.capture import Captured, capture
from triton_ads.split.cut import Entry, finish
from triton_ads.split.emit import Unshared
from triton_ads.split.errors import FixedBatchError, SplitError
from triton_ads.split.locate import where_batch_is_fixed
from triton_ads.split.propagate import propagate
from triton_ads.split.values import Side


@dataclass(frozen=True)
class Split:
    """A row-wise model in two parts.

    user:  inputs of the user side, [B, ...] each -> state [B, Z] float32
    item:  state [B, Z], user_of_tile [C] int64, inputs of the item side [C, P, ...] -> scores [C, P, K]

    B, C and P are free in every call. `user_inputs` and `item_inputs` give the order of the arguments.
    """

    user: nn.Module
    item: nn.Module
    user_inputs: tuple[str, ...]
    item_inputs: tuple[str, ...]
    state: tuple[Entry, ...]
    unshared: tuple[Unshared, ...]
    captured: Captured  # the row-wise graph of which both were made

    @property
    def state_size(self) -> int:
        return max(1, sum(entry.size for entry in self.state))

    def run(self, inputs: Mapping[str, torch.Tensor], user_of_tile: torch.Tensor) -> torch.Tensor:
        """Both parts, one after the other: scores [C, P, K]."""
        state = self.user(*(inputs[name] for name in self.user_inputs))
        return self.item(state, user_of_tile, *(inputs[name] for name in self.item_inputs))


def split(module: nn.Module, example_inputs: dict[str, torch.Tensor], sides: Mapping[str, Side]) -> Split:
    """Split a row-wise module in what depends on the user alone and what depends on the candidate.

    Args:
        module: in evaluation mode; takes the inputs by keyword, [M, ...] each, and returns scores [M, K].
        example_inputs: at least two rows of every input; their values do not matter.
        sides: the side of every input.

    Raises:
        SplitError: an input without a side, a batch axis that is fixed or cannot be followed, or an operator
            that is random or knows its row.
    """
    missing = sorted(set(example_inputs) - set(sides))
    if missing:
        raise SplitError(f"inputs {missing} have no side; allowed: user, item")
    for side in ("user", "item"):
        if side not in {sides[name] for name in example_inputs}:
            raise SplitError(f"no input of side {side}; a ranker needs at least one")
    if module.training:
        raise SplitError("the module is in training mode; call eval() first")
    try:
        captured = capture(module, example_inputs)
    except FixedBatchError as error:
        where = where_batch_is_fixed(module, example_inputs)
        raise SplitError(f"{where}: {error}" if where else str(error)) from error
    names = {id(tensor): name for name, tensor in captured.statics.items()}
    emit, scores = propagate(captured, dict(sides), names)
    user, item, entries = finish(emit, scores)
    live = set(emit.item.graph.nodes)  # a rule may have done without a copy that was made before it
    return Split(
        user=user,
        item=item,
        user_inputs=tuple(name for name in example_inputs if sides[name] == "user"),
        item_inputs=tuple(name for name in example_inputs if sides[name] == "item"),
        state=tuple(entries),
        unshared=tuple(copy for node, copy in emit.copies.items() if node in live),
        captured=captured,
    )
