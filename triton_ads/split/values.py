"""What the compiler knows of a value: static, of one side, or blocks of sides along one axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import sympy
import torch
from torch import fx

Side = Literal["user", "item"]
Size: TypeAlias = "int | sympy.Expr"
Shape: TypeAlias = tuple[Size, ...]


@dataclass(frozen=True, eq=False)
class Static:
    """A parameter or constant: known at build time, the same in both parts."""

    tensor: torch.Tensor

    @property
    def shape(self) -> Shape:
        return tuple(self.tensor.shape)


@dataclass(frozen=True, eq=False)
class Row:
    """A value of one side: `node` lives in that side's graph; `shape` is the row-wise one, batch symbol included.

    `made` says of what an item's value was made, for rules that can do better with the ingredients: the operation that
    it replaces is then read by nobody and disappears.
    """

    side: Side
    node: fx.Node
    shape: Shape
    dtype: torch.dtype
    made: "Terms | Product | Joined | Grid | Chosen | None" = None


@dataclass(frozen=True, eq=False)
class Terms:
    """The sum of values times factors, broadcast against each other; all of the rank of the sum."""

    terms: tuple[tuple[Row, float], ...]


@dataclass(frozen=True, eq=False)
class Product:
    """The product, element by element, of a value of the item and one of the user, both of the rank of the product."""

    item: Row
    user: Row


@dataclass(frozen=True, eq=False)
class Joined:
    """Values side by side along `axis`."""

    axis: int
    parts: tuple[Row, ...]


@dataclass(frozen=True, eq=False)
class Blocks:
    """A value that is cut along one axis in blocks, each of one side: what `cat` of a user and an item leaves.

    axis: |---- user ----|-- item --|- user -|
    """

    axis: int
    parts: tuple[Row, ...]

    @property
    def sizes(self) -> list[int]:
        return [int(part.shape[self.axis]) for part in self.parts]

    @property
    def shape(self) -> Shape:
        shape = list(self.parts[0].shape)
        shape[self.axis] = sum(self.sizes)
        return tuple(shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.parts[0].dtype


@dataclass(frozen=True, eq=False)
class Grid:
    """The matrix product, rows of `left` [M, R, K] by columns of `right` [M, K, N], of values that may be blocks."""

    left: "Row | Blocks"
    right: "Row | Blocks"


@dataclass(frozen=True, eq=False)
class Chosen:
    """Elements of the last axis of `base`."""

    base: Row
    at: tuple[int, ...]


Tensorial = Static | Row | Blocks


def shape_of(tensor: torch.Tensor) -> Shape:
    """The shape of an exported value: a size that depends on the batch as an expression."""
    return tuple(size if isinstance(size, int) else size.node.expr for size in tensor.shape)


def resized(shape: Sequence[Size], axis: int, size: Size) -> Shape:
    """`shape` with another size on `axis`."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def normal_axis(axis: int, rank: int) -> int:
    """A non-negative axis."""
    return axis + rank if axis < 0 else axis
