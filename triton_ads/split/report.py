"""What a split shares: operations, bytes of state, and what had to be copied for every row, with the line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from triton_ads.split.compile import Split
from triton_ads.split.errors import source_line

aten = torch.ops.aten

_ROWS = 64  # rows of the counted run; counts are given per row


@dataclass(frozen=True)
class Operator:
    """An operator of the row-wise model that multiplies matrices, and what became of it.

    `side` says which part holds it: user, item, "user item" for both, or none where another operator does its work
    (the choice of pairs that the products of DLRM are for). FLOPs as in `SplitReport`.
    """

    operator: str
    source: str
    shape: tuple[int, ...]  # of its value, of one row
    side: str
    flops_row: int
    flops_user: int
    flops_item: int


@dataclass(frozen=True)
class SplitReport:
    """Counts of floating-point operations (2 per multiply-add, products only) and bytes.

    A request with n candidates costs `row * n` operations as written, and `user + item * n` when split.
    """

    flops_row: int  # of the row-wise model, per row
    flops_user: int  # of the user part, per user
    flops_item: int  # of the item part, per candidate
    state_bytes: int  # per user
    state: list[dict[str, Any]]  # name, shape, dtype, offset, size and source line of every entry
    operators: list[dict[str, Any]]  # the fields of Operator, in the model's order
    unshared: list[dict[str, Any]]  # operator, source line, elements copied per row, reason

    @property
    def shared(self) -> float:
        """The part of a row's operations that is no longer done for every candidate."""
        return 1 - self.flops_item / self.flops_row if self.flops_row else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "shared": self.shared}


def report(parts: Split, inputs: Mapping[str, torch.Tensor]) -> SplitReport:
    """Count what the model and its parts do. `inputs`: a row or more of every input of the row-wise model."""
    row = {name: tensor[:1] for name, tensor in inputs.items()}
    rows = {name: tensor.repeat_interleave(_ROWS, 0) for name, tensor in row.items()}
    users = [row[name] for name in parts.user_inputs]
    tile = [rows[name].unsqueeze(0) for name in parts.item_inputs]
    captured = parts.captured
    with torch.no_grad(), _layers_taken_apart():
        state, user = _count(parts.user, users)
        _, item = _count(parts.item, [state, torch.zeros(1, dtype=torch.int64), *tile])
        _, model = _count(fx.GraphModule(nn.Module(), captured.graph), captured.arguments(rows))
    for node in captured.graph.nodes:
        if node.target is aten.sum.dim_IntList and node.name in item:
            model[node.name] = item[node.name]  # a product that the model writes as `(a * b).sum(1)`
    lines = {node.name: source_line(node) for node in captured.graph.nodes}
    origins = {node.name: node.meta.get("origin", "") for node in parts.user.graph.nodes}  # type: ignore[union-attr]
    return SplitReport(
        flops_row=sum(model.values()) // _ROWS,
        flops_user=sum(user.values()),
        flops_item=sum(item.values()) // _ROWS,
        state_bytes=4 * parts.state_size,
        state=[{**asdict(e), "source": lines.get(origins.get(e.name, ""), "")} for e in parts.state],
        operators=[
            asdict(_operator(node, *counts))
            for node in captured.graph.nodes
            if any(counts := [flops.get(node.name, 0) for flops in (model, user, item)])
        ],
        unshared=[asdict(copy) for copy in parts.unshared],
    )


def _operator(node: fx.Node, model: int, user: int, item: int) -> Operator:
    value = node.meta["val"]
    first = value[0] if isinstance(value, list | tuple) else value  # of a recurrent layer: the outputs of all steps
    return Operator(
        operator=str(node.target),
        source=source_line(node),
        shape=tuple(size for size in first.shape if isinstance(size, int)),
        side=" ".join(side for side, flops in (("user", user), ("item", item)) if flops),
        flops_row=model // _ROWS,
        flops_user=user,
        flops_item=item // _ROWS,
    )


def _count(module: nn.Module, arguments: list[torch.Tensor]) -> tuple[Any, dict[str, int]]:
    """The result of a graph, and the FLOPs of its operators by the node of the row-wise graph they were made of."""
    assert isinstance(module, fx.GraphModule)
    counter = _Counter(module)
    return counter.run(*arguments), counter.flops


class _Counter(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.flops: dict[str, int] = {}

    def run_node(self, n: fx.Node) -> Any:
        with FlopCounterMode(display=False) as counter:
            result = super().run_node(n)
        if found := int(counter.get_total_flops()):
            origin = n.meta.get("origin", n.name)
            self.flops[origin] = self.flops.get(origin, 0) + found
        return result


@contextmanager
def _layers_taken_apart() -> Iterator[None]:
    """Without PyTorch's operators for a whole attention or LSTM, which are not counted."""
    mkldnn = torch.backends.mkldnn
    was, *_ = mkldnn.set_flags(_enabled=False, _fp32_precision=None)  # `flags()` would set TF32 as well, and warn
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        mkldnn.set_flags(_enabled=was, _fp32_precision=None)
