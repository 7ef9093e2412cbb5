"""One option for each item so that the total cost keeps a budget and the total loss is as small as it can be.

The items are matrices and their patterns, or tiles and their group sizes; costs are bytes. Every item starts at its
cheapest option; then the step that saves most loss a byte is taken, again and again, while it fits. Only options on the
lower convex hull of an item are ever taken, which makes the result optimal at every budget that the steps meet exactly,
and otherwise no further from the optimum than the one step that no longer fitted (Everett 1963).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


class BudgetError(ValueError):
    """A budget that cannot be met; `least` and `most` are the bytes between which something can be chosen."""

    def __init__(self, budget: int, least: int, most: int) -> None:
        super().__init__(f"a budget of {budget:,} bytes; {least:,} to {most:,} bytes are possible")
        self.least, self.most = least, most


@dataclass(frozen=True)
class Option:
    """What an item costs, in bytes, and the loss that it brings, if it is taken this way."""

    cost: int
    loss: float


def allocate(items: Sequence[Sequence[Option]], budget: int) -> list[int]:
    """The number of the option taken of every item. Ties go to the earlier item, so the result is deterministic.

    Raises BudgetError where even the cheapest options cost more than the budget.
    """
    hulls = [lower_hull(options) for options in items]
    taken = [hull[0] for hull in hulls]
    left = budget - sum(options[one].cost for options, one in zip(items, taken, strict=True))
    if left < 0:
        most = sum(max(option.cost for option in options) for options in items)
        raise BudgetError(budget, budget - left, most)
    steps = []
    for item, hull in enumerate(hulls):
        for number, (cheap, dear) in enumerate(pairwise(hull)):
            cost = items[item][dear].cost - items[item][cheap].cost
            saved = items[item][cheap].loss - items[item][dear].loss
            steps.append((-saved / cost, item, number, cost, dear))
    blocked: set[int] = set()
    for _, item, _, cost, dear in sorted(steps):
        if item in blocked:
            continue
        if cost > left:
            blocked.add(item)
            continue
        taken[item] = dear
        left -= cost
    return taken


def lower_hull(options: Sequence[Option]) -> list[int]:
    """Numbers of the options on the lower convex hull, from the cheapest to the one with the least loss."""
    order = sorted(range(len(options)), key=lambda one: (options[one].cost, options[one].loss, one))
    hull: list[int] = []
    for one in order:
        if hull and options[one].loss >= options[hull[-1]].loss:
            continue
        while len(hull) > 1 and not _convex(options[hull[-2]], options[hull[-1]], options[one]):
            hull.pop()
        hull.append(one)
    return hull


def _convex(first: Option, middle: Option, last: Option) -> bool:
    """Whether the middle option lies below the line from the first to the last."""
    saved, cost = first.loss - middle.loss, middle.cost - first.cost
    return saved * (last.cost - first.cost) > (first.loss - last.loss) * cost
