"""The ranking rule: arithmetic over scores and item columns, checked when the recipe is read, and evaluated for all
candidates of a request at once.

    bid * cvr          bid * (cvr + 0.5 * dcvr)          log1p(bid) * cvr ** 2

Precedence and meaning are Python's, in float64. Where Python would raise (a logarithm of 0, a division by 0, a number
too large) the value is NaN or infinite, as IEEE 754 has it, for the candidates concerned alone.

Only what is listed here can be written. A rule is never handed to Python's `eval`: its tree is read node by node.
"""

# Legend: N candidates.

import ast
import math
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = Mapping[str, NDArray[np.floating]]
Compute = Callable[[Values], Any]  # float64 [N], or float64 where no name is read

LONGEST, DEEPEST = 500, 50  # characters; operations inside one another

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: np.negative, ast.UAdd: np.positive}
#: Function -> its arguments and what it does. `min` and `max` are NaN where any argument is.
_FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "min": ("two or more", lambda *values: reduce(np.minimum, values)),
    "max": ("two or more", lambda *values: reduce(np.maximum, values)),
    "clip": ("3: value, lowest, highest", lambda value, low, high: np.minimum(np.maximum(value, low), high)),
    "log": ("1", np.log),
    "log1p": ("1", np.log1p),
    "exp": ("1", np.exp),
    "sqrt": ("1", np.sqrt),
}
ALLOWED = f"names, numbers, + - * / **, parentheses, {', '.join(_FUNCTIONS)}"


class ExpressionError(ValueError):
    """A rule that cannot be used; the message shows the part that is wrong, and what is allowed."""


@dataclass(frozen=True)
class Expression:
    """A rule that was checked.

    >>> rule = parse_expression("bid * cvr", ["bid", "cvr"])
    >>> rule({"bid": np.array([2.0, 0.5]), "cvr": np.array([0.25, 0.5])}).tolist()
    [0.5, 0.25]
    """

    text: str
    names: tuple[str, ...]  # that it reads, in the order in which they first stand
    _compute: Compute = field(repr=False, compare=False)

    def __call__(self, values: Values) -> NDArray[np.float64]:
        """The value of every candidate, float64 [N]; NaN or infinite where the arithmetic says so.

        Args:
            values: [N] of every name, of any float type.
        """
        with np.errstate(all="ignore"):
            found: NDArray[np.float64] = self._compute({n: np.asarray(values[n], np.float64) for n in self.names})
        return found


def parse_expression(text: str, names: Collection[str]) -> Expression:
    """Read a rule.

    Args:
        text: the rule; the mere name of one of `names` is one, even where Python has another use for the word.
        names: what it may read.

    Raises:
        ExpressionError: too long, too deep, no expression, or something in it is not allowed.
    """
    text = text.strip()
    if text in names:
        return Expression(text, (text,), lambda values: values[text])
    if len(text) > LONGEST:
        raise ExpressionError(f"{len(text)} characters found, at most {LONGEST} allowed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tokenizer: `1and 2`, which is refused below
            tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExpressionError(f"{text!r} is no expression ({reason}); allowed: {ALLOWED}") from None
    reader = _Reader(text, names)
    compute = reader.read(tree.body, 1)
    if not reader.found:
        raise ExpressionError(f"{text!r} reads nothing; at least one name is needed: {', '.join(names)}")
    return Expression(text, tuple(reader.found), compute)


class _Reader:
    """Turns the tree of a rule into functions, and remembers the names that it met."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self._text, self._names = text, names
        self.found: dict[str, None] = {}

    def read(self, node: ast.expr, depth: int) -> Compute:
        if depth > DEEPEST:
            raise ExpressionError(f"more than {DEEPEST} operations inside one another; simplify it")
        match node:
            case ast.Name(id=name):
                return self._name(name)
            case ast.Constant(value=value):
                return self._number(node, value)
            case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _SIGNS:
                return _apply(_SIGNS[type(sign)], self.read(operand, depth + 1))
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return _apply(_OPERATORS[type(operator)], self.read(left, depth + 1), self.read(right, depth + 1))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
                wanted, function = _FUNCTIONS[name]
                if len(arguments) < 2 if wanted == "two or more" else len(arguments) != int(wanted[0]):
                    raise self._wrong(node, f"{name} takes {wanted}, {len(arguments)} found")
                return _apply(function, *(self.read(argument, depth + 1) for argument in arguments))
        raise self._wrong(node, f"is not allowed; allowed: {ALLOWED}")

    def _name(self, name: str) -> Compute:
        if name not in self._names:
            raise ExpressionError(f"{name!r} is not known; allowed: {', '.join(self._names)}")
        self.found[name] = None
        return lambda values: values[name]

    def _number(self, node: ast.expr, value: object) -> Compute:
        try:
            # A bool is an int to Python.
            number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self._wrong(node, "is no finite number")
        constant = np.float64(number)
        return lambda _: constant

    def _wrong(self, node: ast.expr, what: str) -> ExpressionError:
        part = ast.get_source_segment(self._text, node) or self._text
        return ExpressionError(f"{part if len(part) <= 60 else part[:60] + '...'!r} {what}")


def _apply(function: Callable[..., Any], *parts: Compute) -> Compute:
    return lambda values: function(*(part(values) for part in parts))
