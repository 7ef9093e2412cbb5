"""The compiled module, built from kernels/cpu."""

import collections.abc
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
    matrices: collections.abc.Sequence[Matrix],
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

class Decoder:
    """The weights of a decoder, checked. Raises ValueError for parts that do not fit together."""

    def __init__(
        self,
        *,
        hidden: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        vocabulary: int,
        positions: int,
        epsilon: float,
        layers: list[tuple[Any, ...]],
        embeddings: NDArray[np.uint16],
        final_norm: NDArray[np.float32],
        head: Matrix,
        inverse_frequencies: NDArray[np.float32],
    ) -> None: ...

class Sequence:
    """Keys, values and buffers of one sequence. Raises ValueError for what does not fit, and changes nothing then."""

    length: int
    nodes: int
    cache_bytes: int
    def __init__(
        self,
        decoder: Decoder,
        *,
        prompt_capacity: int,
        node_capacity: int,
        cache: str,
        activation_bits: int,
        threads: int,
        path: str,
    ) -> None: ...
    def clear_nodes(self) -> None: ...
    def cut(self, length: int) -> None: ...

def forward(
    parts: list[tuple[Sequence, NDArray[np.int64], NDArray[np.int64] | None]],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64] | None,
    candidates: NDArray[np.int64] | None,
    normalised: bool,
    out: NDArray[np.float32],
) -> None: ...
