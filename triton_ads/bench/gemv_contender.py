"""What `triton-ads bench gemv` measures: a case, and a contender that turns through cold matrices in bursts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The contender that reads memory and computes nothing.
PROBE = "read only"
#: Weights that every contender turns through, so that none of its caches holds the next matrix.
COLD_BYTES = 160 << 20
#: Bytes of a burst: one to two milliseconds of reading. Fewer where a product is limited by arithmetic.
BURST_BYTES = {1: 40 << 20, 20: 8 << 20}


@dataclass(frozen=True)
class Case:
    """One shape, batch and number of threads."""

    rows: int
    columns: int
    batch: int
    threads: int

    @property
    def name(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.columns} -> {self.rows}, M={self.batch}, {threads}"


@dataclass(frozen=True)
class Contender:
    """`burst(i)` does `products` products with the i-th lot of matrices, of `lots` lots."""

    name: str
    nbytes: int
    products: int
    lots: int
    burst: Callable[[int], object]
    error: float


def copies_of(nbytes: int, batch: int) -> tuple[int, int]:
    """How many products make a burst and how many lots of matrices there are, for matrices of this size."""
    products = max(1, BURST_BYTES[batch] // nbytes)
    return products, max(2, -(-COLD_BYTES // (products * nbytes)))


def relative_error(found: NDArray[Any], wanted: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
