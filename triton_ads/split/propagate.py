"""Partition propagation: every value of the row-wise graph is translated into the user's and the item's graph."""

import inspect
import operator
from typing import Any

import sympy
import torch
from torch import fx

from triton_ads.split.capture import Captured
from triton_ads.split.emit import Emitter
from triton_ads.split.errors import SplitError, source_line
from triton_ads.split.rules import REWRITES, Rule, rule_for
from triton_ads.split.values import Blocks, Row, Side, Static, shape_of

aten = torch.ops.aten

#: Checks of sizes that export leaves in the graph; the parts are exported with checks of their own.
_ASSERTIONS = {
    aten._assert_scalar.default,
    aten._assert_tensor_metadata.default,
    aten.sym_constrain_range_for_size.default,
    aten.sym_constrain_range.default,
    torch.ops.aten._assert_async.msg,
}

_NO_RULE = "no rule for this operator"
_NOT_COVERED = "its rule does not cover this form"

#: Constants of the type of another value.
_CONSTANTS = {aten.new_zeros, aten.new_ones, aten.new_full, aten.new_empty}

_VIEWS = {aten.view.default, aten._unsafe_view.default}


def propagate(captured: Captured, sides: dict[str, Side], names: dict[int, str]) -> tuple[Emitter, Row]:
    """Translate the whole graph; returns the emitter with both graphs and the scores as a value of the item side."""
    return _Propagation(captured, sides, names).run()


class _Propagation:
    def __init__(self, captured: Captured, sides: dict[str, Side], names: dict[int, str]) -> None:
        self.captured = captured
        self.sides = sides
        self.emit = Emitter(captured.batch, names)
        self.values: dict[fx.Node, Any] = {}

    def run(self) -> tuple[Emitter, Row]:
        placeholders = {node.name: node for node in self.captured.graph.nodes if node.op == "placeholder"}
        inputs = {name: placeholders[placeholder] for name, placeholder in self.captured.inputs.items()}
        rows = self.emit.begin(
            (n, self.sides[n], shape_of(p.meta["val"]), p.meta["val"].dtype) for n, p in inputs.items()
        )
        for name, placeholder in inputs.items():
            self.values[placeholder] = rows[name]
        for name, tensor in self.captured.statics.items():
            self.values[placeholders[name]] = Static(tensor)
        for node in self.captured.graph.nodes:
            if node.op == "call_function":
                self.emit.turn_to(node)
                self.values[node] = self._translate(node)
            elif node.op == "output":
                self.emit.turn_to(None)  # scores are per row: a copy to get there is no loss
                return self.emit, self._scores(node)
            elif node.op != "placeholder":
                raise SplitError(f"{source_line(node)}: {node.op} {node.target} is not understood")
        raise SplitError("the exported graph has no output")

    def _scores(self, node: fx.Node) -> Row:
        outputs: Any = node.args[0]
        value = self.values[outputs[0]]
        if isinstance(value, Static):
            raise SplitError("the scores do not depend on any input")
        if len(value.shape) != 2 or value.shape[0] != self.captured.batch or not isinstance(value.shape[1], int):
            raise SplitError(
                f"{source_line(outputs[0])}: scores of shape {list(value.shape)} found, "
                f"[{self.captured.batch}, K] is needed: a row for each row of the inputs, a column for each label"
            )
        return self.emit.as_item(value)

    def _translate(self, node: fx.Node) -> Any:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | int):  # arithmetic on sizes is made anew in each part
            return value.node.expr if isinstance(value, torch.SymInt) else value
        if node.target in _ASSERTIONS or isinstance(value, torch.SymBool):  # a comparison that an assertion reads
            return None
        args: Any = fx.map_arg(node.args, lambda n: self.values[n])
        kwargs: Any = fx.map_arg(node.kwargs, lambda n: self.values[n])
        if node.target is operator.getitem and isinstance(args[0], list | tuple):
            return args[0][args[1]]
        self._refuse_what_knows_its_row(node)
        self._refuse_sizes_of_values(node)

        flat = _leaves([args, kwargs])
        rows = [leaf for leaf in flat if isinstance(leaf, Row)]
        blocks = [leaf for leaf in flat if isinstance(leaf, Blocks)]
        if not rows and not blocks:
            if any(isinstance(leaf, sympy.Expr) for leaf in flat):
                return self._copy(node, "user", args, kwargs)  # the same for every row: made once per user
            return self._evaluate(node, args, kwargs)
        if getattr(node.target, "overloadpacket", None) in _CONSTANTS:  # reads the kind of its argument, not its rows
            args = _map(args, lambda v: Static(torch.empty(0, dtype=v.dtype)) if isinstance(v, Row | Blocks) else v)
            sized = any(isinstance(leaf, sympy.Expr) for leaf in flat)
            return self._copy(node, "user", args, kwargs) if sized else self._evaluate(node, args, kwargs)
        self._refuse_what_mixes_rows(node)
        if not blocks and len({row.side for row in rows}) == 1:
            rewritten = self._apply_rule(REWRITES.get(node.target), node, args, kwargs)
            return self._copy(node, rows[0].side, args, kwargs) if rewritten is None else rewritten
        rule = rule_for(node.target)
        result = self._apply_rule(rule, node, args, kwargs)
        if result is None:  # no rule covers it: copy the users by row
            self.emit.reason = self.emit.reason or (_NOT_COVERED if rule else _NO_RULE)
            args, kwargs = self._as_items([args, kwargs])
            result = self._copy(node, "item", args, kwargs)
        return result

    def _apply_rule(self, rule: Rule | None, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """What the operator's rule makes of it; None where no rule covers this form of it."""
        if rule is None or any(isinstance(leaf, Row | Blocks) for leaf in _leaves(kwargs)):
            return None
        try:
            inspect.signature(rule).bind(self.emit, node, *args, **kwargs)
        except TypeError:  # an argument that the rule does not know
            return None
        result = rule(self.emit, node, *args, **kwargs)
        return result if result is None or _agrees(result, node.meta["val"]) else None

    def _refuse_what_knows_its_row(self, node: fx.Node) -> None:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags and not _dropout_is_off(node):
            raise SplitError(f"{source_line(node)}: {node.target} is random; scores must not be")
        arange = getattr(node.target, "overloadpacket", None) is aten.arange
        if arange and any(not isinstance(size, int) for size in shape_of(node.meta["val"])):
            bag = any("embedding_bag" in str(reader.target) for reader in node.users)
            instead = " (nn.EmbeddingBag does; take a lookup and a masked sum)" if bag else ""
            raise SplitError(
                f"{source_line(node)}: {node.target} numbers the rows{instead}; a row must not know its position"
            )

    def _refuse_sizes_of_values(self, node: fx.Node) -> None:
        """The size of each axis must follow from the model and the batch alone, not from what the inputs hold."""
        for tensor in _leaves(node.meta.get("val")):
            if not isinstance(tensor, torch.Tensor):
                continue
            symbols = {s for size in shape_of(tensor) if not isinstance(size, int) for s in size.free_symbols}
            if symbols - {self.captured.batch}:
                raise SplitError(
                    f"{source_line(node)}: {node.target} gives as many values as its input says, "
                    f"{list(tensor.shape)}; sizes must not depend on values (a mask as an index does; take the "
                    f"places that it marks, made once in the constructor, or torch.where)"
                )

    def _refuse_what_mixes_rows(self, node: fx.Node) -> None:
        """Of a value that depends on rows, each result must have a row for each of them."""
        value = node.meta["val"]
        for tensor in value if isinstance(value, list | tuple) else [value]:
            if tensor.numel() and all(isinstance(size, int) for size in tensor.shape):
                raise SplitError(
                    f"{source_line(node)}: {node.target} leaves no batch axis: {list(tensor.shape)} of all rows "
                    f"together; the scores of a row must not depend on other rows"
                )

    def _evaluate(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """A value that depends on parameters alone is computed now."""
        with torch.no_grad():
            arguments, keywords = _map([args, kwargs], lambda v: v.tensor if isinstance(v, Static) else v)
            result = node.target(*arguments, **keywords)  # type: ignore[operator]
        return _map(result, lambda v: Static(v) if isinstance(v, torch.Tensor) else v)

    def _copy(self, node: fx.Node, side: Side, args: Any, kwargs: Any) -> Any:
        """The operator as the model wrote it, in the graph of one side."""
        value = node.meta["val"]
        # A view was legal for the strides of the whole model; in a part a value may lie otherwise.
        target = aten.reshape.default if node.target in _VIEWS else node.target
        if isinstance(value, torch.Tensor):
            shape, dtype = shape_of(value), value.dtype
            return self.emit.emit(side, target, *args, shape=shape, dtype=dtype, keywords=kwargs)
        many = self.emit.emit(side, target, *args, shape=(), dtype=torch.float32, keywords=kwargs)
        outputs = []
        for index, tensor in enumerate(value):
            outputs.append(self.emit.item_of(many, index, shape_of(tensor), tensor.dtype))
        return outputs

    def _as_items(self, value: Any) -> Any:
        return _map(value, lambda v: self.emit.as_item(v) if isinstance(v, Row | Blocks) else v)


def _dropout_is_off(node: fx.Node) -> bool:
    """Whether an operator that can drop values is told not to: dropout, attention, recurrent layers, rrelu."""
    told = {}
    for position, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
        told[argument.name] = argument.default_value if given is None else given
    return told.get("train") is False or told.get("training") is False or bool(told.get("dropout_p") == 0.0)


def _agrees(result: Any, value: Any) -> bool:
    """Whether a rule's result has the shape and type of what the operator gives: a rule that errs is not used."""
    if result is None:  # one of several results, which nothing reads
        return True
    if isinstance(result, list):
        return len(result) == len(value) and all(_agrees(r, v) for r, v in zip(result, value, strict=True))
    return tuple(result.shape) == shape_of(value) and result.dtype == value.dtype


def _map(value: Any, function: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_map(item, function) for item in value)
    if isinstance(value, dict):
        return {key: _map(item, function) for key, item in value.items()}
    return function(value)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    return [value]
