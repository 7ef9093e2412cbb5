"""PyTorch modules as ONNX graphs: named inputs, free axes, embedding tables in a file of their own.

Tables are stored outside the graph, so that ONNX Runtime maps it into memory and every process on a machine shares
one copy; user part and item part of a tier read the same file.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx.external_data_helper import set_external_data
from torch import nn

OPSET = 20
#: Where a table of a graph lies, beside the graph.
TABLE_FILE = "table.bin"
#: Initializers of fewer bytes stay in the graph.
TABLE_BYTES = 4096
PAGE = 4096  # tables start on a page, as memory maps do
#: Operators that must not appear: engines run them slowly (ONNX Runtime) or not at all (TensorRT).
FORBIDDEN = (
    "Loop",
    "If",
    "Scan",
    "SequenceConstruct",
    "SequenceAt",
    "SequenceInsert",
    "ConcatFromSequence",
    "SplitToSequence",
)


class GraphError(ValueError):
    """An exported graph that must not be served; the message names what it holds."""


class _Variadic(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.module(*inputs)


def export_onnx(
    module: nn.Module,
    example_inputs: Sequence[torch.Tensor],
    free_axes: Sequence[dict[int, str]],
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> onnx.ModelProto:
    """Export `module` with the axes named in `free_axes` left open.

    Args:
        example_inputs: one tensor an argument of `module`; free axes of equal name have equal size, 2 or more.
        free_axes: axis -> name, for each input; the same name is the same size everywhere.

    Raises:
        GraphError: a free axis would be fixed, or the graph holds a forbidden operator.
    """
    axes = {name: torch.export.Dim(name, min=1, max=2**31 - 1) for free in free_axes for name in free.values()}
    shapes = tuple({axis: axes[name] for axis, name in free.items()} for free in free_axes)
    try:
        exported = torch.export.export(
            _Variadic(module),  # one form for every module, whatever its arguments are called
            tuple(tensor.clone() for tensor in example_inputs),  # one tensor given twice would be one input
            dynamic_shapes=(shapes,),
            # Sizes of views become checks at run time, which ONNX has no use for, instead of bounds on the axes.
            prefer_deferred_runtime_asserts_over_guards=True,
        )
        program = torch.onnx.export(
            exported,
            dynamo=True,
            opset_version=OPSET,
            input_names=list(input_names),
            output_names=list(output_names),
            verbose=False,
        )
    except Exception as error:  # the exporter raises many types; each means the same here
        raise GraphError(
            f"{', '.join(output_names)}: cannot be exported with free axes {sorted(axes)}: {error}"
        ) from error
    assert program is not None
    program.optimize()
    model = program.model_proto
    for argument, free in zip(model.graph.input, free_axes, strict=True):  # names of its own: the exporter made some up
        for axis, name in free.items():
            argument.type.tensor_type.shape.dim[axis].dim_param = name
    del model.graph.value_info[:]  # would still say the made-up names
    found = sorted({node.op_type for node in model.graph.node} & set(FORBIDDEN))
    if found:
        raise GraphError(
            f"{', '.join(output_names)}: the graph holds {', '.join(found)}; engines cannot run these well"
        )
    return model


def save_onnx(model: onnx.ModelProto, path: Path) -> None:
    """Write a graph; its embedding tables go to `table.bin` beside it, each content once for all graphs there.

    A table is a large initializer that Gather alone reads: other weights are packed by engines and cannot be shared.
    """
    for tensor in _tables(model):
        content = onnx.numpy_helper.to_array(tensor).tobytes()
        offset = _place(path.parent / TABLE_FILE, content)
        tensor.raw_data = content  # float_data, if any, would stay beside the reference
        for field in ("float_data", "int64_data"):
            tensor.ClearField(field)
        set_external_data(tensor, TABLE_FILE, offset=offset, length=len(content))
        tensor.ClearField("raw_data")
    path.write_bytes(model.SerializeToString(deterministic=True))


def _tables(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    readers: dict[str, set[tuple[str, int]]] = {}
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            readers.setdefault(name, set()).add((node.op_type, position))
    return [
        tensor
        for tensor in model.graph.initializer
        if readers.get(tensor.name) == {("Gather", 0)} and math.prod(tensor.dims) * 4 >= TABLE_BYTES
    ]


def _place(file: Path, content: bytes) -> int:
    """Offset of `content` in `file`, appended on a page of its own unless it is there already."""
    held = file.read_bytes() if file.exists() else b""
    for offset in range(0, len(held), PAGE):
        if held.startswith(content, offset):
            return offset
    offset = -(-len(held) // PAGE) * PAGE
    with file.open("ab") as out:
        out.write(b"\0" * (offset - len(held)) + content)
    return offset
