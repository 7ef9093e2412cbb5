"""The line of a model that is to blame: where the batch size becomes fixed, where rows first meet.

Called when a model is refused already, to say why; an empty text where the line cannot be found.
"""

import operator
import traceback
from collections.abc import Mapping, Sequence
from traceback import FrameSummary
from typing import Any

import sympy
import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.overrides import TorchFunctionMode

from triton_ads.split.capture import Captured, capture
from triton_ads.split.errors import SplitError, source_line
from triton_ads.split.values import shape_of

_ROWS = 3  # that are compared with themselves alone


class _Watch(TorchFunctionMode):
    """Remembers the line of the model at which an equation with the batch size was first taken for granted."""

    def __init__(self, env: ShapeEnv) -> None:
        super().__init__()
        self.env = env
        self.line = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        fixing = next((guard for guard in self.env.guards if isinstance(guard.expr, sympy.Eq)), None)
        if not self.line and fixing is not None:  # asked by the model itself, or in an operator that it calls
            asked = fixing.sloc.framework_loc
            frames = [asked] if isinstance(asked, FrameSummary) and not _of_torch(asked.filename) else _stack()
            self.line = last_line(frames)
        return result


def _stack() -> list[FrameSummary]:
    return list(traceback.extract_stack())


def last_line(frames: Sequence[FrameSummary]) -> str:
    """The innermost frame that is the model's."""
    for frame in reversed(frames):
        if not _of_torch(frame.filename) and frame.filename != __file__:
            return f"{frame.filename}:{frame.lineno}"
    return ""


def _of_torch(file: str) -> bool:
    return "/torch/" in file


def where_batch_is_fixed(module: nn.Module, example_inputs: Mapping[str, torch.Tensor]) -> str:
    """The line that needs one certain batch size, as `file:line`; it runs the model on tensors without values."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    inputs = {}
    for name, tensor in example_inputs.items():
        free = [DimDynamic.DYNAMIC, *[DimDynamic.STATIC] * (tensor.dim() - 1)]
        inputs[name] = mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=free))
    rows = [tensor.shape[0] for tensor in inputs.values()]
    for other in rows[1:]:
        torch._check(rows[0] == other)  # one size, and no guard of the model's
    env.guards.clear()
    watch = _Watch(env)
    try:
        with mode, watch:
            module(**inputs)
    except Exception as error:  # whatever the model raises on such tensors, export has said it already
        return watch.line or last_line(traceback.extract_tb(error.__traceback__))
    return watch.line


@torch.no_grad()
def where_rows_meet(module: nn.Module, inputs: Mapping[str, torch.Tensor]) -> str:
    """The first operator whose value for a row changes with the other rows, as `file:line: operator`."""
    try:
        captured = capture(module, dict(inputs))
    except SplitError:
        return ""
    together = _values(captured, inputs)
    alone = [
        _values(captured, {name: tensor[row : row + 1] for name, tensor in inputs.items()})
        for row in range(min(_ROWS, len(next(iter(inputs.values())))))
    ]
    for node in together:
        shape = shape_of(node.meta["val"])
        axis = shape.index(captured.batch) if captured.batch in shape else None
        for row, values in enumerate(alone):
            whole = together[node] if axis is None else together[node].narrow(axis, row, 1)
            if whole.shape == values[node].shape and not _close(whole, values[node]):
                maker = node.args[0] if node.target is operator.getitem else node  # of several results, their operator
                return f"{source_line(node)}: {maker.target}"  # type: ignore[union-attr]
    return ""


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True))


def _values(captured: Captured, inputs: Mapping[str, torch.Tensor]) -> dict[fx.Node, torch.Tensor]:
    """Every tensor that an operator of the graph gives."""
    recorder = _Recorder(fx.GraphModule(nn.Module(), captured.graph))
    recorder.run(*captured.arguments(inputs))
    by_name = {node.name: node for node in captured.graph.nodes}
    return {by_name[name]: value for name, value in recorder.values.items()}


class _Recorder(fx.Interpreter):
    """Keeps the tensor of every operator, by the name of its node."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function" and isinstance(result, torch.Tensor):
            self.values[n.name] = result
        return result
