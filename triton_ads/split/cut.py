"""The cut: what crosses it becomes one flat state per user, and both graphs become modules."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import fx, nn

from triton_ads.split.emit import CutValue, Emitter
from triton_ads.split.errors import SplitError
from triton_ads.split.part import Part, read_entry
from triton_ads.split.values import Row

aten = torch.ops.aten

#: An int64 v travels as two floats, hi = floor(v / 2^20) and lo = v mod 2^20: exact for |v| < 2^44.
INT_BASE = 2**20

_DTYPES: dict[torch.dtype, Literal["float32", "int64", "bool"]] = {
    torch.float32: "float32",
    torch.int64: "int64",
    torch.bool: "bool",
}


@dataclass(frozen=True)
class Entry:
    """Where one cut value lies in the state of a user, in floats."""

    name: str
    shape: tuple[int, ...]  # without the user axis
    dtype: Literal["float32", "int64", "bool"]
    offset: int
    size: int


def lay_out(cuts: list[CutValue]) -> list[Entry]:
    """Entries one after the other, in the order in which the item part first reads them."""
    entries, offset = [], 0
    for cut in cuts:
        if cut.dtype not in _DTYPES:
            raise SplitError(f"{cut.source}: a user's value of {cut.dtype} is read; allowed: float32, int64, bool")
        size = math.prod(cut.shape) * (2 if cut.dtype == torch.int64 else 1)
        entries.append(Entry(cut.node.name, cut.shape, _DTYPES[cut.dtype], offset, size))
        offset += size
    return entries


def finish(emit: Emitter, scores: Row) -> tuple[nn.Module, nn.Module, list[Entry]]:
    """Write the state in the user graph and read it in the item graph; returns both modules and the layout."""
    sizes = [emit.tiles, emit.candidates, *scores.shape[1:]]
    emit.item.graph.output(emit.item.call(aten.reshape.default, scores.node, sizes))
    reads = _live_reads(emit)
    cuts = [emit.cuts[index] for index in reads]
    entries = lay_out(cuts)
    _write_state(emit, cuts, entries)
    _read_state(emit, dict(zip(reads.values(), entries, strict=True)))
    return _module(emit.user), _module(emit.item), entries


def _live_reads(emit: Emitter) -> dict[int, fx.Node]:
    """Index of every cut value that the scores need -> where the item graph reads it."""
    emit.item.graph.eliminate_dead_code()
    reads: dict[int, fx.Node] = {}
    for node in emit.item.graph.nodes:
        if node.target is read_entry:
            index: Any = node.args[1]
            reads[index] = node
    return reads


def _write_state(emit: Emitter, cuts: list[CutValue], entries: list[Entry]) -> None:
    user = emit.user
    flat = []
    for cut, entry in zip(cuts, entries, strict=True):
        value = user.call(aten.reshape.default, cut.node, [emit.users, math.prod(entry.shape)])
        if entry.dtype == "int64":
            high = user.call(aten.div.Tensor_mode, value, INT_BASE, rounding_mode="floor")
            low = user.call(aten.sub.Tensor, value, user.call(aten.mul.Tensor, high, INT_BASE))
            value = user.call(aten.cat.default, [high, low], 1)
        if entry.dtype != "float32":
            value = user.call(aten._to_copy.default, value, dtype=torch.float32)
        flat.append(value)
    if not sum(entry.size for entry in entries):  # scores that ignore the user still need a state to travel
        flat.append(user.call(aten.full.default, [emit.users, 1], 0.0))
    user.graph.output(user.call(aten.cat.default, flat, 1))


def _read_state(emit: Emitter, entries: dict[fx.Node, Entry]) -> None:
    graph = emit.item.graph
    if entries:
        with graph.inserting_before(next(iter(entries))):
            users = graph.call_function(aten.sym_size.int, (emit.state, 0))
    for node, entry in entries.items():
        with graph.inserting_before(node):
            value = graph.call_function(aten.slice.Tensor, (emit.state, 1, entry.offset, entry.offset + entry.size))
            if entry.dtype == "int64":
                half = entry.size // 2
                high = graph.call_function(aten.slice.Tensor, (value, 1, 0, half))
                low = graph.call_function(aten.slice.Tensor, (value, 1, half, entry.size))
                # combined as integers: the sum may need more than float32's 24 bits
                high = graph.call_function(aten._to_copy.default, (high,), {"dtype": torch.int64})
                low = graph.call_function(aten._to_copy.default, (low,), {"dtype": torch.int64})
                value = graph.call_function(
                    aten.add.Tensor, (graph.call_function(aten.mul.Tensor, (high, INT_BASE)), low)
                )
            elif entry.dtype == "bool":
                value = graph.call_function(aten.ne.Scalar, (value, 0.0))
            value = graph.call_function(aten.reshape.default, (value, [users, *entry.shape]))
        node.replace_all_uses_with(value)
        graph.erase_node(node)


def _module(part: Part) -> nn.Module:
    part.graph.eliminate_dead_code()
    used = {node.target for node in part.graph.nodes if node.op == "get_attr"}
    root = nn.Module()
    for name, tensor in part.constants.items():
        if name in used:
            root.register_buffer(name, tensor)
    part.graph.lint()
    return fx.GraphModule(root, part.graph)
