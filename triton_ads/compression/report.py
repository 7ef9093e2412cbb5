"""What a compression did: every matrix, what it costs and what it lost, and the sizes beside the usual sparse formats.

Legend: N rows (outputs), K columns (inputs).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from triton_ads.compression.budget import other_bytes
from triton_ads.compression.calibration import Calibration
from triton_ads.compression.compressed_matrix import CompressedMatrix
from triton_ads.compression.compressor import Compressed
from triton_ads.compression.llama_config import LlamaConfig
from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.sizes import Size, csr_size, packed_size


@dataclass(frozen=True)
class MatrixReport:
    """One matrix.

    groups:    rows by group size; empty for 16-bit values.
    increases: measured loss increase by pattern offered, in nats; empty where nothing was to choose.
    estimated: increase of the loss that the matrix alone is estimated to bring, to second order, in nats.
    error:     root of the relative squared output error on the calibration text, as the loss sees it.
    """

    name: str
    pattern: str
    values: str
    groups: dict[int, int]
    bits_per_weight: float
    bytes: int
    increases: dict[str, float]
    estimated: float
    error: float


@dataclass(frozen=True)
class SizeReport:
    """Bytes of all sparse matrices in one format, values and indices apart."""

    format: str
    values: int
    indices: int
    rest: int
    total: int


@dataclass(frozen=True)
class CompressionReport:
    """A whole compression. Perplexities are on text that was neither calibrated nor trained on."""

    matrices: tuple[MatrixReport, ...]
    sizes: tuple[SizeReport, ...]
    bits_per_weight: float
    bytes_per_token: int
    bytes: int
    perplexity_before: float
    perplexity_after: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compression_report(
    config: LlamaConfig,
    compressed: Compressed,
    packed: Mapping[str, PackedMatrix],
    weights: Mapping[str, NDArray[np.float32]],
    calibration: Mapping[str, Calibration],
    perplexity_before: float,
    perplexity_after: float,
) -> CompressionReport:
    """Gather the figures. `weights` are those before compression."""
    matrices = tuple(
        _matrix_report(name, one, packed[name], weights[name], calibration[name], compressed.increases.get(name, {}))
        for name, one in compressed.matrices.items()
    )
    total = sum(one.bytes for one in matrices)
    return CompressionReport(
        matrices=matrices,
        sizes=size_reports(packed),
        bits_per_weight=8 * total / sum(weight.size for weight in weights.values()),
        bytes_per_token=total,
        bytes=total + other_bytes(config),
        perplexity_before=perplexity_before,
        perplexity_after=perplexity_after,
    )


def _matrix_report(
    name: str,
    matrix: CompressedMatrix,
    packed: PackedMatrix,
    weight_NK: NDArray[np.float32],
    calibration: Calibration,
    increases: Mapping[Pattern, float],
) -> MatrixReport:
    error_NK = matrix.dequantised() - weight_NK
    lost, all_of_it = _energy(error_NK, calibration), _energy(weight_NK, calibration)
    sizes, counts = np.unique(getattr(matrix, "group_size_N", np.zeros(0, np.uint16)), return_counts=True)
    return MatrixReport(
        name=name,
        pattern=str(matrix.pattern),
        values=str(packed.values),
        groups=dict(zip(sizes.tolist(), counts.tolist(), strict=True)),
        bits_per_weight=8 * packed.nbytes / weight_NK.size,
        bytes=packed.nbytes,
        increases={str(pattern): increase for pattern, increase in increases.items()},
        estimated=float(calibration.loss_increase_N(error_NK).sum()),
        error=float(np.sqrt(lost / all_of_it)) if all_of_it > 0 else 0.0,
    )


def _energy(weight_NK: NDArray[np.float32], calibration: Calibration) -> float:
    """Squared output over the calibration text, summed over rows."""
    return float(np.einsum("nk,nk->", weight_NK @ calibration.hessian_KK, weight_NK))


def size_reports(packed: Mapping[str, PackedMatrix]) -> tuple[SizeReport, ...]:
    """The sparse matrices: packed; the same kept values in CSR with INT4 values and int16 indices, and with FP16 values
    and int32 indices; all their weights in FP16."""
    sparse = [matrix for matrix in packed.values() if matrix.pattern.sparse]
    dense = sum(2 * matrix.rows * matrix.columns for matrix in sparse)
    return (
        _total("packed", [packed_size(matrix) for matrix in sparse]),
        _total("CSR, INT4 values, int16 indices", [csr_size(matrix, 4, 16) for matrix in sparse]),
        _total("CSR, FP16 values, int32 indices", [csr_size(matrix, 16, 32) for matrix in sparse]),
        SizeReport("all weights in FP16", dense, 0, 0, dense),
    )


def _total(name: str, sizes: list[Size]) -> SizeReport:
    values, indices, rest = (sum(getattr(size, part) for size in sizes) for part in ("values", "indices", "rest"))
    return SizeReport(name, values, indices, rest, values + indices + rest)


def tables(report: CompressionReport) -> list[Table]:
    """Matrices, then sizes."""
    matrices = Table("matrix", "pattern", "values", "rows by group", "bits", "kB", "increases", "estimated", "error",
                     title="what each matrix got")  # fmt: skip
    for one in report.matrices:
        groups = " ".join(f"{rows}x{size}" for size, rows in one.groups.items())
        increases = " ".join(f"{pattern} {increase:+.4f}" for pattern, increase in one.increases.items())
        matrices.add_row(
            one.name.removeprefix("model.layers."), one.pattern, one.values, groups, f"{one.bits_per_weight:.3f}",
            f"{one.bytes / 1e3:.1f}", increases, f"{one.estimated:.4f}", f"{one.error:.3f}",
        )  # fmt: skip
    sizes = Table(
        "format", "values MB", "indices MB", "rest MB", "total MB", "packed is", title="sizes of the sparse matrices"
    )
    for size in report.sizes:
        parts = [f"{part / 1e6:.2f}" for part in (size.values, size.indices, size.rest, size.total)]
        sizes.add_row(size.format, *parts, f"{report.sizes[0].total / max(size.total, 1):.1%}")
    return [matrices, sizes]
