"""The size report against worked numbers."""

import numpy as np

from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import round_to_nearest
from triton_ads.compression.sizes import csr_size, kept_values, packed_size


def test_two_of_four_beside_compressed_sparse_rows() -> None:
    """128 x 256 at 2:4 keeps 16384 values. INT4: 8192 bytes, 2-bit indices: 4096, 2 groups x 4 tiles x 64 of scales."""
    packed = pack(round_to_nearest(np.ones((128, 256)), Pattern.TWO_OF_FOUR, 128))
    size = packed_size(packed)
    assert kept_values(packed) == 16384
    assert (size.values, size.indices, size.rest) == (8192, 4096, 512 + 4 * 2)
    assert size.total == packed.nbytes
    int4_csr = csr_size(packed, value_bits=4, index_bits=16)
    assert (int4_csr.values, int4_csr.indices, int4_csr.rest) == (8192, 32768, 129 * 4)
    # The seed's 30 %: (4 + 2) / (4 + 16) bits per kept value.
    assert (size.values + size.indices) / (int4_csr.values + int4_csr.indices) == 0.3
    fp16_csr = csr_size(packed, value_bits=16, index_bits=32)
    assert (size.values + size.indices) / (fp16_csr.values + fp16_csr.indices) == 0.125


def test_padding_is_counted() -> None:
    packed = pack(round_to_nearest(np.ones((33, 65)), Pattern.ONE_OF_FOUR, 64))
    size = packed_size(packed)
    # 2 tiles x 2 groups x 1 step: 256 bytes of values and 128 of indices each.
    assert (size.values, size.indices, size.rest) == (1024, 512, 4 * 64 + 2 * 2)
    assert size.total == packed.nbytes
