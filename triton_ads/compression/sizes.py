"""What a packed matrix costs in bytes, values and indices apart, beside the usual sparse formats."""

from dataclasses import dataclass

from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.patterns import INDEX_BYTES, QUAD, SCALE_BYTES, Values, step_bytes

_CSR_ROW_POINTER_BYTES = 4


@dataclass(frozen=True)
class Size:
    """Bytes of one matrix in one format."""

    values: int
    indices: int
    rest: int
    """Scales, orders and sizes of groups; row pointers of CSR."""

    @property
    def total(self) -> int:
        return self.values + self.indices + self.rest


def packed_size(packed: PackedMatrix) -> Size:
    """Bytes of the packed matrix, padding included."""
    steps = scales = 0
    for size in packed.group_size_T.tolist():
        span = size or packed.pattern.step_columns
        groups = -(-packed.columns // span)
        steps += groups * span // packed.pattern.step_columns
        scales += groups * SCALE_BYTES if packed.values is Values.INT4 else 0
    indices = steps * INDEX_BYTES if packed.pattern.sparse else 0
    values = steps * step_bytes(packed.pattern, packed.values) - indices
    return Size(values, indices, scales + packed.nbytes - packed.tiles.nbytes)


def kept_values(packed: PackedMatrix) -> int:
    """Values that the pattern keeps in the matrix itself, without padding."""
    return packed.rows * packed.columns * packed.pattern.kept // QUAD


def csr_size(packed: PackedMatrix, value_bits: int, index_bits: int) -> Size:
    """Bytes of the same kept values in compressed sparse rows. CSR INT4 needs scales too; they are left out here,
    which favours CSR."""
    kept = kept_values(packed)
    return Size(kept * value_bits // 8, kept * index_bits // 8, (packed.rows + 1) * _CSR_ROW_POINTER_BYTES)
