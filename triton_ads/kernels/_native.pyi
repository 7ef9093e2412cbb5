"""The compiled module, built from kernels/cpu."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class Matrix:
    """A checked view of a packed matrix. Raises ValueError for parts that do not fit together."""

    rows: int
    columns: int
    def __init__(
        self,
        pattern: str,
        values: str,
        rows: int,
        columns: int,
        groups: NDArray[np.uint16],
        row_order: NDArray[np.int32] | None,
        tiles: NDArray[np.uint8],
    ) -> None: ...

def multiply(
    matrix: Matrix,
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    activation_bits: int,
    threads: int,
    path: str,
) -> None: ...
def time_products(
    matrices: Sequence[Matrix],
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    activation_bits: int,
    threads: int,
    path: str,
) -> float: ...
def time_reading(bytes: NDArray[Any], threads: int, path: str) -> float: ...
def usable_paths() -> list[str]: ...
def usable_cores() -> int: ...
def active_processes() -> int: ...
def last_threads() -> int: ...
