"""What each operator does where users meet items: one file a family, one function an operator.

A rule gets the emitter, the node of the row-wise model and its arguments as values, and returns a value, or None where
it does not apply: the caller then copies the users by row, which is always right.
"""

from collections.abc import Callable
from typing import Any

from triton_ads.split.emit import Emitter
from triton_ads.split.rules import activations, along, gather, linear, pairs, pointwise, products, reduce, shape

Rule = Callable[..., Any]

RULES: dict[Any, Rule] = {
    **shape.RULES,
    **linear.RULES,
    **products.RULES,
    **reduce.RULES,
    **gather.RULES,
    **along.RULES,
    **activations.RULES,
}

#: Rules for values of items alone that were made of a user's (`Row.made`); None where the plain operator is as good.
REWRITES: dict[Any, Rule] = {
    **linear.REWRITES,
    **pairs.REWRITES,
    **reduce.REWRITES,
    **activations.REWRITES,
}


def rule_for(target: Any) -> Rule | None:
    """The rule of an operator; every operator that PyTorch tags as pointwise shares one."""
    if target in RULES:
        return RULES[target]
    return pointwise.pointwise if pointwise.is_pointwise(target) else None


__all__ = ["REWRITES", "Emitter", "Rule", "rule_for"]
