"""The batch axis kept apart: [M x heads, T, d] of the model becomes [M, heads, T, d] of a graph that computes the same.

Ordinary modules merge the batch with other axes (nn.MultiheadAttention with heads and with time, a batch norm with
time) and part them again later. In between nothing tells which row a value belongs to. Here every such value is
replaced by one whose batch is an axis of its own. An operator that cannot work so gets the merged value back.

    groups     how many axes of the new graph stand for each axis of the model's value: (2, 1, 1) above
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx

from triton_ads.split.errors import SplitError, source_line
from triton_ads.split.rules.pointwise import is_pointwise
from triton_ads.split.values import Shape, Size, normal_axis, shape_of

aten = torch.ops.aten

_VIEWS = {aten.view.default, aten._unsafe_view.default, aten.reshape.default}
_SOFTMAX = {aten.softmax.int, aten.log_softmax.int}
_NORMS = {aten.layer_norm.default, aten.rms_norm.default}
_REDUCTIONS = {aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default, aten.any.dim, aten.all.dim}


@dataclass(frozen=True)
class _Apart:
    """A value of the new graph, and how its axes stand for those of the model's value."""

    node: fx.Node
    groups: tuple[int, ...]

    @property
    def plain(self) -> bool:
        return all(count == 1 for count in self.groups)

    @property
    def sizes(self) -> list[Shape]:
        """The sizes of each group."""
        shape, start, sizes = shape_of(self.node.meta["val"]), 0, []
        for count in self.groups:
            sizes.append(shape[start : start + count])
            start += count
        return sizes

    def axis(self, axis: int) -> int | None:
        """The axis that stands for the model's `axis`; None where several do."""
        return sum(self.groups[:axis]) if self.groups[axis] == 1 else None


def unmerge(graph: fx.Graph, batch: sympy.Symbol) -> fx.Graph:
    """A graph that computes what `graph` does, with the batch an axis of its own wherever that can be."""
    if not any(_merges(node, batch) for node in graph.nodes):
        return graph
    return _Unmerging(graph, batch).run()


def _merges(node: fx.Node, batch: sympy.Symbol) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return False
    return any(not isinstance(size, int) and size != batch for size in shape_of(value))


class _Unmerging:
    def __init__(self, graph: fx.Graph, batch: sympy.Symbol) -> None:
        self.old, self.batch = graph, batch
        self.new = fx.Graph()
        self.values: dict[fx.Node, _Apart] = {}  # of tensors
        self.others: dict[fx.Node, fx.Node] = {}  # of sizes, tuples and what has no value
        self.rows: fx.Node | None = None
        self.current: fx.Node | None = None

    def run(self) -> fx.Graph:
        for node in self.old.nodes:
            self.current = node
            apart = self._apart(node) if node.op == "call_function" else None
            if apart is not None:
                self.values[node] = apart
                continue
            copy = self.new.node_copy(node, self._merged)
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                self.values[node] = _Apart(copy, (1,) * value.dim())
            else:
                self.others[node] = copy
        self.new.eliminate_dead_code()
        return self.new

    # -- values

    def _merged(self, node: fx.Node) -> fx.Node:
        """The value as the model has it."""
        if node in self.others:
            return self.others[node]
        apart = self.values[node]
        if apart.plain:
            return apart.node
        sizes = [self._product(group) for group in apart.sizes]
        return self._call(aten.reshape.default, apart.node, sizes)

    def _product(self, sizes: Shape) -> Any:
        number = math.prod(size for size in sizes if isinstance(size, int))
        if all(isinstance(size, int) for size in sizes):
            return number
        return self._call(operator.mul, self._batch_size(), number) if number != 1 else self._batch_size()

    def _batch_size(self) -> fx.Node:
        if self.rows is None:
            for node, apart in self.values.items():
                shape = shape_of(node.meta["val"])
                if node.op == "placeholder" and shape and shape[0] == self.batch:
                    self.rows = self._call(aten.sym_size.int, apart.node, 0)
                    break
        assert self.rows is not None
        return self.rows

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """An operator of the new graph, with the value that it has on the exporter's fake tensors."""
        node = self.new.call_function(target, args, kwargs)
        fake_args, fake_kwargs = fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        mode = next((v.fake_mode for v in _tensors([fake_args, fake_kwargs]) if hasattr(v, "fake_mode")), None)
        if mode is None:
            node.meta["val"] = target(*fake_args, **fake_kwargs)
        else:
            with mode:
                node.meta["val"] = target(*fake_args, **fake_kwargs)
        if self.current is not None:
            node.meta["stack_trace"] = self.current.meta.get("stack_trace")
        return node

    def _sizes(self, shape: Sequence[Size]) -> list[Any]:
        return [size if isinstance(size, int) else self._batch_size() for size in shape]

    # -- operators

    def _apart(self, node: fx.Node) -> _Apart | None:
        """The value of `node` with the batch apart; None where it is copied as it is."""
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return None
        inputs = [self.values[n] for n in node.all_input_nodes if n in self.values]
        if all(x.plain for x in inputs) and not _merges(node, self.batch):
            return None
        if node.target in _VIEWS:
            return self._view(node)
        if node.kwargs and not is_pointwise(node.target):
            return None
        if is_pointwise(node.target):
            return self._pointwise(node)
        first = self.values.get(node.args[0]) if isinstance(node.args[0], fx.Node) else None
        rule = _RULES.get(node.target)
        return rule(self, node, first) if rule and first else None

    def _view(self, node: fx.Node) -> _Apart | None:
        source = self.values[node.args[0]]  # type: ignore[index]
        shape = shape_of(source.node.meta["val"])
        if shape.count(self.batch) != 1 or any(not isinstance(s, int) and s != self.batch for s in shape):
            return None
        axis = shape.index(self.batch)
        before, behind = math.prod(_ints(shape[:axis])), math.prod(_ints(shape[axis + 1 :]))
        wanted = shape_of(node.meta["val"])
        symbolic = [axis for axis, size in enumerate(wanted) if not isinstance(size, int)]
        if len(symbolic) != 1:
            return None
        (axis,) = symbolic
        outer, inner = math.prod(_ints(wanted[:axis])), math.prod(_ints(wanted[axis + 1 :]))
        if wanted[axis] == self.batch and (before, behind) != (outer, inner):
            raise SplitError(
                f"{source_line(node)}: {node.target} cuts rows in another way than they were put together, "
                f"{list(shape)} to {list(wanted)}; the batch axis cannot be followed"
            )
        if not outer or not inner or before % outer or behind % inner:
            return None
        group = [*([before // outer] * (before != outer)), self.batch, *([behind // inner] * (behind != inner))]
        sizes = self._sizes([*wanted[:axis], *group, *wanted[axis + 1 :]])
        groups = tuple(len(group) if a == axis else 1 for a in range(len(wanted)))
        return _Apart(self._call(aten.reshape.default, source.node, sizes), groups)

    def _pointwise(self, node: fx.Node) -> _Apart | None:
        rank = node.meta["val"].dim()
        operands = [self.values[n] for n in node.all_input_nodes if n in self.values]
        groups: list[Shape] = [(1,)] * rank  # the sizes of every axis of the result
        for x in operands:
            for axis, sizes in enumerate(x.sizes, start=rank - len(x.groups)):
                if sizes == (1,) or sizes == groups[axis]:
                    continue
                if groups[axis] != (1,):
                    return None  # the same axis, parted in different ways
                groups[axis] = sizes
        aligned = {n: self._stretch(self.values[n], groups) for n in node.all_input_nodes if n in self.values}
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: aligned[n] if n in aligned else self.others[n])
        return _Apart(self._call(node.target, *args, **kwargs), tuple(len(group) for group in groups))

    def _stretch(self, x: _Apart, groups: Sequence[Shape]) -> fx.Node:
        """An operand with as many axes as the result has where it has one of size 1."""
        sizes: list[Size] = []
        for own, group in zip(x.sizes, groups[len(groups) - len(x.groups) :], strict=True):
            sizes += own if len(own) == len(group) else (1,) * len(group)
        if len(sizes) == sum(x.groups):
            return x.node
        return self._call(aten.reshape.default, x.node, self._sizes(sizes))

    def _linear(self, node: fx.Node, x: _Apart) -> _Apart | None:
        if x.groups[-1] != 1:
            return None
        rest = [self._merged(n) if isinstance(n, fx.Node) else n for n in node.args[1:]]
        return _Apart(self._call(node.target, x.node, *rest), x.groups)

    def _matmul(self, node: fx.Node, a: _Apart) -> _Apart | None:
        b = self.values[node.args[1]]  # type: ignore[index]
        if len(a.groups) != len(b.groups) or len(a.groups) < 3 or a.sizes[:-2] != b.sizes[:-2]:
            return None
        if a.groups[-2:] != (1, 1) or b.groups[-2:] != (1, 1):
            return None
        return _Apart(self._call(aten.matmul.default, a.node, b.node), a.groups)

    def _permute(self, node: fx.Node, x: _Apart) -> _Apart:
        rank = len(x.groups)
        if node.target is aten.transpose.int:
            order = list(range(rank))
            a, b = (normal_axis(axis, rank) for axis in node.args[1:3])  # type: ignore[arg-type]
            order[a], order[b] = order[b], order[a]
        else:
            order = [normal_axis(axis, rank) for axis in node.args[1]]  # type: ignore[union-attr, arg-type]
        starts = [sum(x.groups[:axis]) for axis in range(rank)]
        axes = [starts[axis] + step for axis in order for step in range(x.groups[axis])]
        return _Apart(self._call(aten.permute.default, x.node, axes), tuple(x.groups[axis] for axis in order))

    def _unsqueeze(self, node: fx.Node, x: _Apart) -> _Apart:
        axis = normal_axis(node.args[1], len(x.groups) + 1)  # type: ignore[arg-type]
        new = self._call(aten.unsqueeze.default, x.node, sum(x.groups[:axis]))
        return _Apart(new, (*x.groups[:axis], 1, *x.groups[axis:]))

    def _along(self, node: fx.Node, x: _Apart) -> _Apart | None:
        """An operator along one axis that keeps it (softmax, slice)."""
        position = normal_axis(node.args[1], len(x.groups))  # type: ignore[arg-type]
        axis = x.axis(position)
        if axis is None:
            return None
        return _Apart(self._call(node.target, x.node, axis, *self._plain(node.args[2:])), x.groups)

    def _drop(self, node: fx.Node, x: _Apart) -> _Apart | None:
        """An operator along one axis that drops it (select, squeeze)."""
        position = normal_axis(node.args[1], len(x.groups))  # type: ignore[arg-type]
        axis = x.axis(position)
        if axis is None or node.meta["val"].dim() == len(x.groups):
            return None
        groups = (*x.groups[:position], *x.groups[position + 1 :])
        return _Apart(self._call(node.target, x.node, axis, *self._plain(node.args[2:])), groups)

    def _norm(self, node: fx.Node, x: _Apart) -> _Apart | None:
        count = len(node.args[1])  # type: ignore[arg-type]
        if set(x.groups[-count:]) != {1}:
            return None
        return _Apart(self._call(node.target, x.node, *self._plain(node.args[1:])), x.groups)

    def _reduce(self, node: fx.Node, x: _Apart) -> _Apart | None:
        given = node.args[1] if len(node.args) > 1 else None
        if given is None:
            return None
        axes = [normal_axis(a, len(x.groups)) for a in ([given] if isinstance(given, int) else given)]  # type: ignore
        moved = [x.axis(axis) for axis in axes]
        if None in moved:
            return None
        keep = len(node.args) > 2 and bool(node.args[2])
        groups = tuple(count for axis, count in enumerate(x.groups) if keep or axis not in axes)
        dims = moved[0] if isinstance(given, int) else moved
        return _Apart(self._call(node.target, x.node, dims, keep), groups)

    def _embedding(self, node: fx.Node, table: _Apart) -> _Apart | None:
        ids = self.values[node.args[1]]  # type: ignore[index]
        return _Apart(self._call(node.target, table.node, ids.node, *node.args[2:]), (*ids.groups, 1))

    def _plain(self, values: Sequence[Any]) -> list[Any]:
        return [self._merged(value) if isinstance(value, fx.Node) else value for value in values]


def _ints(sizes: Sequence[Size]) -> list[int]:
    return [int(size) for size in sizes]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


_RULES: dict[Any, Any] = {
    aten.linear.default: _Unmerging._linear,
    aten.bmm.default: _Unmerging._matmul,
    aten.matmul.default: _Unmerging._matmul,
    aten.transpose.int: _Unmerging._permute,
    aten.permute.default: _Unmerging._permute,
    aten.unsqueeze.default: _Unmerging._unsqueeze,
    aten.slice.Tensor: _Unmerging._along,
    aten.select.int: _Unmerging._drop,
    aten.squeeze.dim: _Unmerging._drop,
    aten.embedding.default: _Unmerging._embedding,
    **dict.fromkeys(_SOFTMAX, _Unmerging._along),
    **dict.fromkeys(_NORMS, _Unmerging._norm),
    **dict.fromkeys(_REDUCTIONS, _Unmerging._reduce),
}
