"""Chosen pairs of a product: those of two of the user's vectors are the user's.

DLRM takes the dot products of all pairs of vectors, `(x x')[:, rows, columns]`. With u vectors of the user and i of the
item, u (u - 1) / 2 of them are computed once per user, and so is their share of the layer that reads them.
"""

from dataclasses import replace
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import fx

from triton_ads.split.emit import Emitter
from triton_ads.split.rules import products
from triton_ads.split.rules.pointwise import narrow
from triton_ads.split.values import Blocks, Chosen, Grid, Row, Static

aten = torch.ops.aten


def index(emit: Emitter, node: fx.Node, x: Any, indices: Any) -> Row | Blocks | None:
    """`x[:, rows, columns]` of a product [M, R, N] with constant rows and columns."""
    if not (isinstance(x, Row) and isinstance(x.made, Grid)) or len(indices) != 3 or indices[0] is not None:
        return None
    if any(not isinstance(i, Static) or i.tensor.dtype != torch.int64 or i.tensor.dim() != 1 for i in indices[1:]):
        return None
    (rows, height), (columns, width) = ((indices[axis].tensor, int(x.shape[axis])) for axis in (1, 2))
    if len(rows) != len(columns) or not len(rows):
        return None
    places = list(zip((rows % height).tolist(), (columns % width).tolist(), strict=True))
    cells = _Cells(emit, x.made)
    owners = [cells.of(row, column) for row, column in places]
    of_cell: dict[tuple[int, int | None], list[tuple[int, int]]] = {}
    for place, owner in zip(places, owners, strict=True):
        of_cell.setdefault(owner, []).append(place)
    chosen = {cell: cells.choose(cell, inside) for cell, inside in of_cell.items()}
    if None in chosen.values():
        return None
    parts, taken = [], dict.fromkeys(chosen, 0)
    for cell, run in groupby(owners):
        whole = chosen[cell]
        low, high = taken[cell], taken[cell] + len(list(run))
        part = narrow(emit, whole, 1, low, high)  # type: ignore[arg-type]
        assert whole is not None and isinstance(whole.made, Chosen)
        parts.append(replace(part, made=Chosen(whole.made.base, whole.made.at[low:high])))
        taken[cell] = high
    return emit.blocks(1, parts)


class _Cells:
    """The product in cells: one for each pair of the user's blocks, one for each other block of rows or columns.

    A cell is named by its blocks; None stands for all blocks of the right.
    """

    def __init__(self, emit: Emitter, grid: Grid) -> None:
        self.emit = emit
        self.left, self.right = _parts(grid.left), _parts(grid.right)
        self.row_edges = [0, *accumulate(int(part.shape[1]) for part in self.left)]
        self.column_edges = [0, *accumulate(int(part.shape[2]) for part in self.right)]

    def of(self, row: int, column: int) -> tuple[int, int | None]:
        """The cell that holds an element."""
        i, j = _block(self.row_edges, row), _block(self.column_edges, column)
        return (i, None) if self.left[i].side == "item" else (i, j)

    def choose(self, cell: tuple[int, int | None], places: list[tuple[int, int]]) -> Row | None:
        """Elements of a cell, at places of the whole product: [M, places]."""
        i, j = cell
        top, first = self.row_edges[i], 0 if j is None else self.column_edges[j]
        parts = self.right if j is None else self.right[j : j + 1]
        found = [products.row_product(self.emit, self.left[i], part) for part in parts]
        if any(product is None for product in found):
            return None
        product = self.emit.join([p for p in found if p is not None], 2)
        height, width = int(product.shape[1]), int(product.shape[2])
        flat = (product.shape[0], height * width)
        rows = self.emit.emit(product.side, aten.reshape.default, product, list(flat), shape=flat, dtype=product.dtype)
        at = [(row - top) * width + column - first for row, column in places]
        shape = (product.shape[0], len(places))
        chosen = self.emit.emit(
            product.side,
            aten.index_select.default,
            rows,
            1,
            Static(torch.tensor(at)),
            shape=shape,
            dtype=product.dtype,
        )
        return replace(chosen, made=Chosen(rows, tuple(at)))


def _parts(value: Row | Blocks) -> tuple[Row, ...]:
    return value.parts if isinstance(value, Blocks) else (value,)


def _block(edges: list[int], index: int) -> int:
    return next(block for block, high in enumerate(edges[1:]) if index < high)


#: For an item's value that was made of a user's.
REWRITES: dict[Any, Any] = {aten.index.Tensor: index}
