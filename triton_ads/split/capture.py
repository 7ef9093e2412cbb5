"""From a module to an exported graph: batch axis free, functional, operators as the model wrote them."""

import io
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass

import sympy
import torch
from torch import fx, nn
from torch.export import Dim, ExportedProgram

from triton_ads.split.errors import FixedBatchError, SplitError
from triton_ads.split.lower import LOWERED
from triton_ads.split.positional import Positional
from triton_ads.split.unmerge import unmerge


@dataclass(frozen=True)
class Captured:
    """An exported row-wise model.

    `batch` is the symbol of the batch axis, `statics` the parameters and constants by placeholder name,
    `inputs` the placeholder of every input by the name that the caller gave it.
    """

    graph: fx.Graph
    batch: sympy.Symbol
    statics: dict[str, torch.Tensor]
    inputs: dict[str, str]

    def arguments(self, rows: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """What the graph's placeholders take, in their order, for rows of the inputs by name."""
        fed = {**self.statics, **{placeholder: rows[name] for name, placeholder in self.inputs.items()}}
        return [fed[str(node.target)] for node in self.graph.nodes if node.op == "placeholder"]


def capture(module: nn.Module, example_inputs: dict[str, torch.Tensor]) -> Captured:
    """Export `module` with every input's axis 0 bound to one free batch size.

    Args:
        example_inputs: two rows or more of every input: with one row the exporter would fix the batch size.

    Raises:
        FixedBatchError: the batch axis is not free.
        SplitError: the model has another output than one tensor.
    """
    rows = {name: len(tensor) if tensor.dim() else 0 for name, tensor in example_inputs.items()}
    if len(set(rows.values())) != 1 or min(rows.values()) < 2:
        raise SplitError(f"example inputs must have the same number of rows, 2 or more; found {rows}")
    batch = Dim("M", min=1, max=2**31 - 1)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # one operator for a whole layer, which no rule can look into
    said = io.StringIO()
    try:
        with redirect_stderr(said):  # where the exporter fails it prints the whole graph; the error says enough
            exported = _exported(module, example_inputs, batch)
    except Exception as error:  # torch.export raises many types; each means the same here
        raise FixedBatchError(f"the model cannot be exported with a free batch axis: {_reason(error)}") from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    sys.stderr.write(said.getvalue())

    signature = exported.graph_signature
    statics: dict[str, torch.Tensor] = {}
    for placeholder, name in {**signature.inputs_to_parameters, **signature.inputs_to_buffers}.items():
        tensor = exported.state_dict.get(name, exported.constants.get(name))
        assert isinstance(tensor, torch.Tensor)
        statics[placeholder] = tensor.detach()
    for placeholder, name in signature.inputs_to_lifted_tensor_constants.items():
        tensor = exported.constants[name]
        assert isinstance(tensor, torch.Tensor)
        statics[placeholder] = tensor.detach()
    if signature.buffers_to_mutate:
        raise SplitError(f"the model changes its buffers {sorted(signature.buffers_to_mutate.values())} when it runs")

    output = next(node for node in exported.graph.nodes if node.op == "output")
    if len(output.args[0]) != 1 or not isinstance(output.args[0][0], fx.Node):
        found = "none" if None in output.args[0] else len(output.args[0])
        raise SplitError(f"the model must return one tensor of scores, it returns {found}")
    placeholders = dict(zip(example_inputs, signature.user_inputs, strict=True))
    by_name = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    first = next(iter(placeholders.values()))
    symbol = by_name[str(first)].meta["val"].shape[0].node.expr
    names = {name: str(placeholder) for name, placeholder in placeholders.items()}
    return Captured(unmerge(exported.graph, symbol), symbol, statics, names)


def _exported(module: nn.Module, example_inputs: Mapping[str, torch.Tensor], batch: Dim) -> ExportedProgram:
    return torch.export.export(
        Positional(module, list(example_inputs)),
        tuple(tensor.clone() for tensor in example_inputs.values()),  # one tensor given twice would be one input
        dynamic_shapes=(tuple({0: batch} for _ in example_inputs),),
    ).run_decompositions(dict(LOWERED))  # functional; of composite operators only these are taken apart


def _reason(error: Exception) -> str:
    """What of an exporter's message says why; the rest is advice on the exporter."""
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if "specialized it to be a constant" in line] or lines or [type(error).__name__]
    return said[0].split(" If you're using ")[0]
