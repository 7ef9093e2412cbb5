"""What a split shares: operations, bytes of state, and what had to be copied for every row, with the line."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from triton_ads.split.compile import Split

_ROWS = 64  # rows of the counted run; counts are given per row


@dataclass(frozen=True)
class SplitReport:
    """Counts of floating-point operations (2 per multiply-add, products only) and bytes.

    A request with n candidates costs `row * n` operations as written, and `user + item * n` when split.
    """

    flops_row: int  # of the row-wise model, per row
    flops_user: int  # of the user part, per user
    flops_item: int  # of the item part, per candidate
    state_bytes: int  # per user
    state: list[dict[str, Any]]  # name, shape, dtype, offset, size of every entry
    unshared: list[dict[str, Any]]  # operator, source line, elements copied per row

    @property
    def shared(self) -> float:
        """The part of a row's operations that is no longer done for every candidate."""
        return 1 - self.flops_item / self.flops_row if self.flops_row else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "shared": self.shared}


def report(module: nn.Module, parts: Split, inputs: Mapping[str, torch.Tensor]) -> SplitReport:
    """Count what the model and its parts do. `inputs`: a row or more of every input of the row-wise model."""
    row = {name: tensor[:1] for name, tensor in inputs.items()}
    rows = {name: tensor.repeat_interleave(_ROWS, 0) for name, tensor in row.items()}
    users = [row[name] for name in parts.user_inputs]
    tile = [rows[name].unsqueeze(0) for name in parts.item_inputs]
    with torch.no_grad():
        state = parts.user(*users)
        return SplitReport(
            flops_row=_flops(lambda: module(**rows)) // _ROWS,
            flops_user=_flops(lambda: parts.user(*users)),
            flops_item=_flops(lambda: parts.item(state, torch.zeros(1, dtype=torch.int64), *tile)) // _ROWS,
            state_bytes=4 * parts.state_size,
            state=[asdict(entry) for entry in parts.state],
            unshared=[asdict(copy) for copy in parts.unshared],
        )


def _flops(run: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())
