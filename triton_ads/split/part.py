"""One of the two graphs while it is written."""

import operator
from typing import Any

import sympy
import torch
from torch import fx

from triton_ads.split.errors import SplitError
from triton_ads.split.values import Shape, Size


class Part:
    """One graph under construction, with the constants that it reads."""

    def __init__(self, names: dict[int, str]) -> None:
        self.graph = fx.Graph()
        self.constants: dict[str, torch.Tensor] = {}
        self.origin: fx.Node | None = None  # the node of the row-wise model that is being translated
        self._names = names
        self._nodes: dict[int, fx.Node] = {}
        self._calls: dict[Any, fx.Node] = {}

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """The value of an operator; the same operator on the same values is computed once."""
        key = (target, _frozen(args), _frozen(kwargs))
        if key not in self._calls:
            node = self.graph.call_function(target, args, kwargs)
            if self.origin is not None:
                node.meta["origin"] = self.origin.name
            self._calls[key] = node
        return self._calls[key]

    def constant(self, tensor: torch.Tensor) -> fx.Node:
        """A reading of `tensor`; the same tensor is stored once."""
        if id(tensor) not in self._nodes:
            name = self._names.get(id(tensor), f"constant_{len(self.constants)}")
            self.constants[name] = tensor
            with self.graph.inserting_before(self._first()):
                self._nodes[id(tensor)] = noted(self.graph.get_attr(name), tuple(tensor.shape), tensor.dtype)
        return self._nodes[id(tensor)]

    def _first(self) -> fx.Node | None:
        return next(iter(self.graph.nodes), None)

    def size(self, expression: Size, batch: sympy.Symbol, node: fx.Node) -> int | fx.Node:
        """A size as an argument: a number, or arithmetic on the part's own batch size `node`."""
        if isinstance(expression, int) or expression.is_Integer:
            return int(expression)
        if expression == batch:
            return node
        if isinstance(expression, sympy.Add | sympy.Mul):
            combine = operator.add if isinstance(expression, sympy.Add) else operator.mul
            terms = [self.size(term, batch, node) for term in expression.args]
            total = terms[0]
            for term in terms[1:]:
                total = self.call(combine, total, term)
            return total
        raise SplitError(f"a size that depends on the batch in a way that cannot be followed: {expression}")


def _frozen(value: Any) -> Any:
    """Arguments as a key; 1, 1.0 and True are different ones."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in sorted(value.items()))
    return type(value), value


def noted(node: fx.Node, shape: Shape, dtype: torch.dtype) -> fx.Node:
    """`node`, with the row-wise shape and dtype of its value written on it."""
    node.meta["shape"], node.meta["dtype"] = shape, dtype
    return node


def read_entry(state: torch.Tensor, index: int) -> torch.Tensor:
    """Stands in the item graph for reading entry `index` of the state until cut.py knows the layout."""
    raise NotImplementedError("replaced by cut.py")
