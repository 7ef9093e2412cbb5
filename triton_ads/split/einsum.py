"""torch.einsum in terms of matrix products and sums, whose batch axis stays an axis of its own.

"bd,de,bte->bt"      two operands at a time, from the left: "bd,de->be", then "be,bte->bt"
"...d,td"            dots become letters, and a result that is not written is what stands once, sorted
"""

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import torch
from torch import Tensor


def einsum(equation: str, operands: Sequence[Tensor], *, path: Any = None) -> Any:
    """What torch.einsum gives; NotImplemented where an operand repeats a letter, or sizes of a letter broadcast."""
    written = _explicit(equation.replace(" ", ""), [operand.dim() for operand in operands])
    if written is None:
        return NotImplemented
    letters, out = written
    size: dict[str, Any] = {}
    for names, operand in zip(letters, operands, strict=True):
        if len(set(names)) != len(names):
            return NotImplemented
        for name, own in zip(names, operand.shape, strict=True):
            # A number beside the batch's symbol is a broadcast, too; comparing them would fix the batch.
            if type(size.setdefault(name, own)) is not type(own) or size[name] != own:
                return NotImplemented
    value, have = operands[0], letters[0]
    for position, (names, operand) in enumerate(zip(letters[1:], operands[1:], strict=True), start=2):
        wanted = out if position == len(operands) else _wanted(have + names, out, letters[position:])
        value, have = _of_two(value, have, operand, names, wanted, size), wanted
    unread = [axis for axis, letter in enumerate(have) if letter not in out]
    value, have = (value.sum(unread) if unread else value), "".join(letter for letter in have if letter in out)
    return value if have == out else value.permute([have.index(letter) for letter in out])


def _explicit(equation: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """The letters of each operand and of the result, dots and a result left out written as letters."""
    left, arrow, out = equation.partition("->")
    operands = left.split(",")
    free = [letter for letter in ascii_letters if letter not in equation]
    dots = max(
        (rank - len(names) + 3 for names, rank in zip(operands, ranks, strict=True) if "..." in names), default=0
    )
    if dots > len(free) or any("." in names.replace("...", "", 1) for names in (*operands, out)):
        return None
    shared = "".join(free[:dots])
    written = []
    for names, rank in zip(operands, ranks, strict=True):
        own = rank - len(names) + 3  # axes that the dots of this operand stand for: the last of all
        written.append(names.replace("...", shared[dots - own :]) if "..." in names else names)
    if not arrow:
        once = [letter for letter in sorted(set(left) - set(".,")) if left.count(letter) == 1]
        return written, shared + "".join(once)
    return written, out.replace("...", shared)


def _wanted(have: str, out: str, later: Sequence[str]) -> str:
    """The letters of an intermediate result: those that the result or a later operand has."""
    return "".join(letter for letter in dict.fromkeys(have) if letter in out or any(letter in o for o in later))


def _of_two(a: Tensor, left: str, b: Tensor, right: str, out: str, size: dict[str, Any]) -> Tensor:
    """A matrix product whose batch axis stays an axis of its own.

    Letters of both operands are shared when the result has them and contracted when not; the others are free:

        [shared, free a, contracted] @ [shared, contracted, free b] -> [shared, free a, free b]
    """
    for letter in set(left) ^ set(right):  # of one operand alone and not in the result: summed first
        if letter not in out and letter in left:
            a, left = a.sum(left.index(letter)), left.replace(letter, "")
        elif letter not in out:
            b, right = b.sum(right.index(letter)), right.replace(letter, "")
    shared = [letter for letter in out if letter in left and letter in right]
    contracted = [letter for letter in left if letter in right and letter not in out]
    free_a = [letter for letter in left if letter not in right]
    free_b = [letter for letter in right if letter not in left]
    if not contracted or (not (free_a or free_b) and len(shared) > 1):
        product = _aligned(a, left, [*out, *contracted]) * _aligned(b, right, [*out, *contracted])
        return product.sum(list(range(-len(contracted), 0))) if contracted else product
    keep_free = not shared  # without shared axes the free ones of the left may stay as they are
    a = _grouped(a, left, shared, free_a if keep_free and free_a else [free_a], [contracted], size)
    b = _grouped(b, right, shared, [contracted], [free_b], size)
    found = torch.matmul(a, b).reshape([size[letter] for letter in (*shared, *free_a, *free_b)])
    have = [*shared, *free_a, *free_b]
    return found.permute([have.index(letter) for letter in out])


def _aligned(x: Tensor, letters: str, wanted: Sequence[str]) -> Tensor:
    """`x` with its axes in the order of `wanted`, and an axis of size 1 for each letter that it lacks."""
    x = x.permute([letters.index(letter) for letter in wanted if letter in letters])
    for axis, letter in enumerate(wanted):
        if letter not in letters:
            x = x.unsqueeze(axis)
    return x


def _grouped(
    x: Tensor, letters: str, shared: list[str], first: list[Any], second: list[Any], size: dict[str, Any]
) -> Tensor:
    """`x` as [shared axes, axes of `first`, axes of `second`]; a list inside these becomes one axis."""
    order = [*shared, *(letter for group in (*first, *second) for letter in group)]
    x = x.permute([letters.index(letter) for letter in order])
    groups: list[Any] = [*shared, *first, *second]
    if all(len(group) == 1 for group in groups):
        return x
    sizes = []
    for group in groups:
        total = 1
        for letter in group:
            total = total * size[letter]
        sizes.append(total)
    return x.reshape(sizes)
