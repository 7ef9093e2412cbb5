"""The two graphs under construction, and the three ways in which a user meets items.

By tile     the user's value is gathered once per tile, [C, 1, ...], and broadcast by the arithmetic itself.
By product  a matrix of the user is multiplied with all rows of a tile at once (rules/products.py).
By row      the user's value is copied for every row. Always right, never shared; counted and reported.
"""

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import sympy
import torch
from torch import fx

from triton_ads.split.errors import SplitError, source_line
from triton_ads.split.part import Part, noted, read_entry
from triton_ads.split.values import Blocks, Chosen, Joined, Row, Shape, Side, Static, Tensorial, resized

aten = torch.ops.aten

#: Views that are replayed behind the cut, so that a value and its transpose travel once.
REPLAYED_VIEWS = {
    aten.transpose.int,
    aten.permute.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.expand.default,
}

#: Why a user's value is copied where no rule says more.
_JOINED = "put side by side with values of the item"

#: Operators that copy along axes.
STRETCHES = {aten.expand.default, aten.repeat.default, aten.tile.default}


#: How a user's value of another type travels. What of a float64 float32 does not hold is lost; the checks judge that.
_CARRIERS = {
    torch.float64: torch.float32,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.int32: torch.int64,
    torch.int16: torch.int64,
    torch.int8: torch.int64,
    torch.uint8: torch.int64,
}


@dataclass(frozen=True)
class CutValue:
    """A value of the user part that the item part reads: one entry of the state."""

    node: fx.Node  # in the user graph
    shape: tuple[int, ...]  # without the user axis
    dtype: torch.dtype
    source: str  # the line of the model that first read it on the item side


@dataclass(frozen=True)
class Unshared:
    """A user's value that had to be copied for every row, and why."""

    operator: str
    source: str
    elements: int
    reason: str


@dataclass
class Emitter:
    """Emits values into the user and the item graph; keeps the list of what crosses the cut."""

    batch: sympy.Symbol
    names: dict[int, str]
    user: Part = field(init=False)
    item: Part = field(init=False)
    cuts: list[CutValue] = field(default_factory=list)
    copies: dict[fx.Node, Unshared] = field(default_factory=dict)  # by the node of the item graph that copies
    reason: str = ""  # why no rule covers the current node
    current: fx.Node | None = None  # the node of the row-wise model under translation, for messages

    def __post_init__(self) -> None:
        self.user = Part(self.names)
        self.item = Part(self.names)
        self._entries: dict[fx.Node, fx.Node] = {}
        self._by_tile: dict[fx.Node, fx.Node] = {}
        self._by_row: dict[fx.Node, fx.Node] = {}
        self._moved: dict[fx.Node, tuple[fx.Node, list[int]]] = {}
        self._inner: fx.Node | None = None

    def turn_to(self, node: fx.Node | None) -> None:
        """What is emitted from now on is made of `node` of the row-wise model."""
        self.current = self.user.origin = self.item.origin = node
        self.reason = ""

    def begin(self, inputs: Iterable[tuple[str, Side, Shape, torch.dtype]]) -> dict[str, Row]:
        """Declare the inputs of both graphs; the item graph also gets the batch sizes that everything else uses."""
        declared = list(inputs)
        rows: dict[str, Row] = {}
        for name, side, shape, dtype in declared:
            if side == "user":
                rows[name] = Row("user", noted(self.user.graph.placeholder(name), shape, dtype), shape, dtype)
        self.users = self.user.call(aten.sym_size.int, next(iter(rows.values())).node, 0)

        graph = self.item.graph
        self.state = graph.placeholder("state")
        self.user_of_tile = graph.placeholder("user_of_tile")
        placeholders = {name: graph.placeholder(name) for name, side, _, _ in declared if side == "item"}
        first = next(iter(placeholders.values()))
        self.tiles = self.item.call(aten.sym_size.int, first, 0)
        self.candidates = self.item.call(aten.sym_size.int, first, 1)
        self.rows = self.item.call(operator.mul, self.tiles, self.candidates)
        for name, side, shape, dtype in declared:
            if side == "item":
                folded = self.item.call(aten.reshape.default, placeholders[name], [self.rows, *shape[1:]])
                rows[name] = Row("item", noted(folded, shape, dtype), shape, dtype)
        return rows

    # -- emission into one side

    def argument(self, side: Side, value: Any) -> Any:
        """A value as an argument of a node of `side`; containers are walked."""
        part, batch = (self.user, self.users) if side == "user" else (self.item, self.rows)
        if isinstance(value, Row):
            assert value.side == side
            return value.node
        if isinstance(value, Static):
            return part.constant(value.tensor)
        if isinstance(value, sympy.Expr):
            return part.size(value, self.batch, batch)
        if isinstance(value, list | tuple):
            return type(value)(self.argument(side, item) for item in value)
        return value

    def emit(
        self,
        side: Side,
        target: Any,
        *args: Any,
        shape: Shape,
        dtype: torch.dtype,
        keywords: Mapping[str, Any] = MappingProxyType({}),
    ) -> Row:
        """One operator on values of one side; `shape` and `dtype` are the result's, `keywords` the operator's."""
        part = self.user if side == "user" else self.item
        arguments = [self.argument(side, value) for value in args]
        named = {key: self.argument(side, value) for key, value in keywords.items()}
        return Row(side, noted(part.call(target, *arguments, **named), shape, dtype), shape, dtype)

    def item_of(self, many: Row, index: int, shape: Shape, dtype: torch.dtype) -> Row:
        """One of the results of an operator that has several."""
        return self.emit(many.side, operator.getitem, many, index, shape=shape, dtype=dtype)

    def join(self, parts: Sequence[Row], axis: int) -> Row:
        """Concatenate values of one side."""
        if len(parts) == 1:
            return parts[0]
        size = sum(int(part.shape[axis]) for part in parts)
        first = parts[0]
        shape = resized(first.shape, axis, size)
        made: Joined | Chosen = Joined(axis, tuple(parts))
        chosen = [part.made for part in parts if isinstance(part.made, Chosen)]
        if len(chosen) == len(parts) and len({choice.base.node for choice in chosen}) == 1:
            made = Chosen(chosen[0].base, tuple(place for choice in chosen for place in choice.at))
        if (whole := self._neighbours(parts, axis, shape)) is not None:
            return replace(whole, made=made)
        whole = self.emit(first.side, aten.cat.default, list(parts), axis, shape=shape, dtype=first.dtype)
        return replace(whole, made=made)

    def _neighbours(self, parts: Sequence[Row], axis: int, shape: Shape) -> Row | None:
        """The one slice that slices of one value make, where each begins at the end of the one before."""
        if any(part.node.target is not aten.slice.Tensor or part.node.args[1] != axis for part in parts):
            return None
        bases, bounds = {part.node.args[0] for part in parts}, [part.node.args[2:] for part in parts]
        if len(bases) != 1 or any(low[1] != high[0] for low, high in pairwise(bounds)):
            return None
        base = bases.pop()
        assert isinstance(base, fx.Node)
        if base.meta["shape"] == shape:
            return Row(parts[0].side, base, shape, parts[0].dtype)
        source = Row(parts[0].side, base, base.meta["shape"], parts[0].dtype)
        low, high = bounds[0][0], bounds[-1][1]
        return self.emit(source.side, aten.slice.Tensor, source, axis, low, high, shape=shape, dtype=source.dtype)

    def blocks(self, axis: int, parts: Sequence[Row]) -> Row | Blocks:
        """Blocks along `axis`, neighbours of one side merged; a plain value where only one side is left."""
        merged: list[list[Row]] = []
        for part in [part for part in parts if part.shape[axis] != 0] or parts[:1]:
            if merged and merged[-1][0].side == part.side:
                merged[-1].append(part)
            else:
                merged.append([part])
        joined = tuple(self.join(group, axis) for group in merged)
        return joined[0] if len(joined) == 1 else Blocks(axis, joined)

    # -- the ways in which a user meets items

    def batch_axis(self, value: Row) -> int | None:
        """The axis that is the batch, when exactly one is and no other size depends on it."""
        symbolic = [axis for axis, size in enumerate(value.shape) if not isinstance(size, int)]
        return symbolic[0] if len(symbolic) == 1 and value.shape[symbolic[0]] == self.batch else None

    def by_tile(self, value: Row) -> fx.Node:
        """A user's value gathered once per tile: [..., C, ...] in the item graph, the batch axis where it was."""
        assert value.side == "user"
        if value.node not in self._by_tile:
            self._by_tile[value.node] = self._gather(value, self.user_of_tile, self.tiles)
        return self._by_tile[value.node]

    def by_row(self, value: Row) -> Row:
        """A user's value copied for every row: right everywhere, and reported as not shared."""
        assert value.side == "user"
        if value.node not in self._by_row:
            self._by_row[value.node] = self._gather(value, self._user_of_row(), self.rows)
            if self.current is not None:
                elements = math.prod(size for size in value.shape if isinstance(size, int))
                copy = Unshared(str(self.current.target), source_line(self.current), elements, self.reason or _JOINED)
                self.copies[self._by_row[value.node]] = copy
        return Row("item", noted(self._by_row[value.node], value.shape, value.dtype), value.shape, value.dtype)

    def as_item(self, value: Tensorial) -> Row:
        """Any value of a side as a value of the item side, users copied by row."""
        if isinstance(value, Blocks):
            return self.join([self.as_item(part) for part in value.parts], value.axis)
        assert isinstance(value, Row)
        return value if value.side == "item" else self.by_row(value)

    def unfold(self, value: Row) -> fx.Node:
        """An item's rows as tiles: the batch axis M becomes two axes C, P."""
        axis = self.batch_axis(value)
        assert axis is not None and value.side == "item"
        return self.item.call(
            aten.reshape.default,
            value.node,
            [*value.shape[:axis], self.tiles, self.candidates, *value.shape[axis + 1 :]],
        )

    def fold(self, node: fx.Node, shape: Shape, dtype: torch.dtype) -> Row:
        """Tiles back to rows of the given row-wise shape."""
        sizes = [self.rows if size == self.batch else size for size in shape]
        return Row("item", noted(self.item.call(aten.reshape.default, node, sizes), shape, dtype), shape, dtype)

    def _user_of_row(self) -> fx.Node:
        if self._inner is None:
            column = self.item.call(aten.unsqueeze.default, self.user_of_tile, 1)
            wide = self.item.call(aten.expand.default, column, [self.tiles, self.candidates])
            self._inner = self.item.call(aten.reshape.default, wide, [self.rows])
        return self._inner

    def _gather(self, value: Row, index: fx.Node, size: fx.Node) -> fx.Node:
        base, views = self._base(value)
        first, order = self._user_first(base)
        node = self.item.call(aten.index_select.default, self._entry(first), 0, index)
        if order:
            node = self.item.call(aten.permute.default, node, [order.index(axis) for axis in range(len(order))])
        for view in views:  # the views between the entry and the value, with the gathered batch size

            def replay(argument: Any) -> Any:
                if isinstance(argument, list | tuple):
                    return type(argument)(replay(a) for a in argument)
                return size if argument is self.users else argument

            node = self.item.call(view.target, node, *(replay(a) for a in view.args[1:]))
        return node

    def _base(self, value: Row) -> tuple[fx.Node, list[fx.Node]]:
        """The value behind trailing views, and those views in the order in which they apply."""
        node, views = value.node, []
        while node.op == "call_function" and node.target in REPLAYED_VIEWS:
            views.append(node)
            node = node.args[0]  # type: ignore[assignment]
        while views and self._axis_0(node) is None:  # the state needs the user on axis 0
            node = views.pop()
        return node, views[::-1]

    def unstretched(self, value: Row) -> Row:
        """The value before it was expanded or repeated along axes of size 1; it broadcasts to the same shape."""
        node = value.node
        if node.target not in STRETCHES or not isinstance(node.args[0], fx.Node):
            return value
        base = node.args[0]
        shape: Shape | None = base.meta.get("shape")
        if shape is None or len(shape) != len(value.shape):
            return value
        if any(own != size and (own != 1 or size == self.batch) for own, size in zip(shape, value.shape, strict=True)):
            return value  # also a constant that was made one for each row: the batch axis must stay
        return self.unstretched(Row(value.side, base, shape, base.meta["dtype"]))

    def _axis_0(self, node: fx.Node) -> tuple[int, ...] | None:
        shape: Shape = node.meta["shape"]
        return shape[1:] if shape and shape[0] == self.batch and all(isinstance(s, int) for s in shape[1:]) else None

    def _user_first(self, node: fx.Node) -> tuple[fx.Node, list[int]]:
        """`node` with its batch axis in front, as the state needs it, and the order of axes; none where it is there."""
        shape: Shape = node.meta["shape"]
        if self._axis_0(node) is not None or [size for size in shape if not isinstance(size, int)] != [self.batch]:
            return node, []
        if node not in self._moved:
            axis = shape.index(self.batch)
            order = [axis, *(other for other in range(len(shape)) if other != axis)]
            moved = self.user.call(aten.permute.default, node, order)
            self._moved[node] = noted(moved, tuple(shape[a] for a in order), node.meta["dtype"]), order
        return self._moved[node]

    def _entry(self, node: fx.Node) -> fx.Node:
        """Where the item graph reads a user node: [B, ...]; filled with the state's layout by cut.py."""
        if node not in self._entries:
            shape = self._axis_0(node)
            if shape is None:
                where = f"{source_line(self.current)}: {self.current.target}" if self.current else "the output"
                raise SplitError(
                    f"{where} reads a user's value of shape "
                    f"{tuple(node.meta['shape'])}, whose axis 0 is not the batch; the batch axis cannot be followed"
                )
            source = source_line(self.current) if self.current else ""
            dtype = node.meta["dtype"]
            carried = _CARRIERS.get(dtype, dtype)
            carrier = node if carried == dtype else self.user.call(aten._to_copy.default, node, dtype=carried)
            self.cuts.append(CutValue(carrier, shape, carried, source))
            read = self.item.call(read_entry, self.state, len(self.cuts) - 1)
            self._entries[node] = read if carried == dtype else self.item.call(aten._to_copy.default, read, dtype=dtype)
        return self._entries[node]
