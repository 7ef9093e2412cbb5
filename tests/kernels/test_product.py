"""Every path of the CPU kernels against the dequantised product in float64.

Tolerances: activations are rounded to 16 bits (half a step is 1.5e-5 of a block's largest value) or to 8 bits (3.9e-3);
over a product the errors average out, outliers aside. The limits 1e-4 and 2e-2 are those that the project promises.
BF16 products differ from float64 by float32 summation only.
"""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from triton_ads.compression.bf16 import pack_bf16
from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.packing import dequantised, pack
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import QuantisedMatrix, largest_of_four, round_to_nearest
from triton_ads.kernels import PackedProduct, usable_cores, usable_paths

LIMIT = {16: 1e-4, 8: 2e-2}
PATHS = usable_paths()


def weights(rows: int, columns: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)


def relative_error(found: NDArray[np.float32], x_MK: NDArray[np.float32], packed: PackedMatrix) -> float:
    wanted = x_MK.astype(np.float64) @ dequantised(packed).astype(np.float64).T
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def test_the_portable_path_is_always_there() -> None:
    assert PATHS[-1] == "portable"


@pytest.mark.parametrize("path", PATHS)
def test_literal_product(path: str) -> None:
    """2 x 8, 2:4, scale 0.5: row 0 keeps columns 1, 3, 4, 6; row 1 keeps 0, 1, 6, 7. The sums are written out below."""
    codes_NK = np.array([[0, 3, 0, -1, 7, 0, -8, 0], [1, 2, 0, 0, 0, 0, 3, -6]], np.int8)
    matrix = QuantisedMatrix(Pattern.TWO_OF_FOUR, codes_NK, np.full((2, 1), 0.5, np.float16), np.full(2, 32, np.uint16))
    x_MK = np.array([[1, 2, 3, 4, 5, 6, 7, 8]], np.float32)
    # Row 0: (3 * 2 - 4 + 7 * 5 - 8 * 7) / 2 = -9.5. Row 1: (1 + 4 + 21 - 48) / 2 = -11.
    found = PackedProduct(pack(matrix))(x_MK, path=path)
    np.testing.assert_allclose(found, [[-9.5, -11.0]], rtol=1e-4)


@settings(max_examples=120)
@given(
    pattern=st.sampled_from(list(Pattern)),
    rows=st.integers(1, 100),
    columns=st.integers(1, 700),
    count=st.integers(1, 33),
    sizes=st.sampled_from([64, 128, 256, "mixed"]),
    bits=st.sampled_from([16, 8]),
    seed=st.integers(0, 2**32),
)
def test_int4_products(
    pattern: Pattern, rows: int, columns: int, count: int, sizes: int | str, bits: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    group_size = rng.choice(pattern.group_sizes, rows).astype(np.uint16) if sizes == "mixed" else sizes
    packed = pack(round_to_nearest(weights(rows, columns, seed), pattern, group_size))
    product = PackedProduct(packed)
    x_MK = rng.standard_normal((count, columns), dtype=np.float32)
    wanted = x_MK.astype(np.float64) @ dequantised(packed).astype(np.float64).T
    # A few columns may cancel to a small result: the error is measured against the terms, not against their sum.
    terms = np.linalg.norm(np.abs(x_MK).astype(np.float64) @ np.abs(dequantised(packed)).astype(np.float64).T)
    reference = product(x_MK, activation_bits=bits, path="portable")  # type: ignore[arg-type]
    assert np.linalg.norm(reference - wanted) <= LIMIT[bits] * max(terms / 4, np.linalg.norm(wanted))
    for path in PATHS:
        found = product(x_MK, activation_bits=bits, path=path)  # type: ignore[arg-type]
        # The same integers in every path: only the order of a few float32 operations differs.
        np.testing.assert_allclose(found, reference, rtol=1e-5, atol=1e-6 * float(np.abs(wanted).max() + 1))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("pattern", list(Pattern))
def test_error_on_a_layer(pattern: Pattern, bits: int, path: str) -> None:
    """The promised limits, with the outliers that activations of language models have."""
    packed = pack(round_to_nearest(weights(256, 1536), pattern, 128))
    x_MK = np.random.default_rng(1).standard_normal((4, 1536), dtype=np.float32)
    x_MK[:, ::97] *= 8
    found = PackedProduct(packed)(x_MK, activation_bits=bits, path=path)  # type: ignore[arg-type]
    assert relative_error(found, x_MK, packed) <= LIMIT[bits]


@settings(max_examples=40)
@given(st.sampled_from(list(Pattern)), st.integers(1, 70), st.integers(1, 300), st.integers(1, 17), st.integers(0, 99))
def test_bf16_products(pattern: Pattern, rows: int, columns: int, count: int, seed: int) -> None:
    weight_NK = weights(rows, columns, seed)
    weight_NK = np.where(largest_of_four(np.abs(weight_NK), pattern), weight_NK, 0)
    packed = pack_bf16(weight_NK, pattern)
    x_MK = weights(count, columns, seed + 1)
    terms = np.abs(x_MK) @ np.abs(weight_NK).T
    wanted = x_MK.astype(np.float64) @ dequantised(packed).astype(np.float64).T
    for path in PATHS:
        assert (np.abs(PackedProduct(packed)(x_MK, path=path) - wanted) <= 1e-5 * terms + 1e-6).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("pattern", list(Pattern))
def test_extreme_codes_do_not_overflow(pattern: Pattern, path: str) -> None:
    """All codes -8 and all activations at the limit: the largest sums that a block of 128 columns can reach."""
    keep = largest_of_four(np.ones((32, 256)), pattern)
    matrix = QuantisedMatrix(
        pattern, np.where(keep, -8, 0).astype(np.int8), np.ones((32, 8), np.float16), np.full(32, 256, np.uint16)
    )
    for sign in (1, -1):
        x_MK = np.full((8, 256), sign, np.float32)
        found = PackedProduct(pack(matrix))(x_MK, path=path)
        np.testing.assert_allclose(found, np.full((8, 32), -8 * 64 * pattern.kept * sign, np.float32), rtol=1e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("bits", [16, 8])
def test_values_that_are_not_finite_give_nan_in_their_row_only(bits: int, path: str) -> None:
    product = PackedProduct(pack(round_to_nearest(weights(40, 200), Pattern.TWO_OF_FOUR, 64)))
    x_MK = weights(3, 200)
    clean = product(x_MK, activation_bits=bits, path=path)  # type: ignore[arg-type]
    for bad in (np.nan, np.inf, -np.inf):
        spoilt = x_MK.copy()
        spoilt[1, 150] = bad
        found = product(spoilt, activation_bits=bits, path=path)  # type: ignore[arg-type]
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(found[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("path", PATHS)
def test_tiny_and_zero_activations_give_zero(path: str) -> None:
    product = PackedProduct(pack(round_to_nearest(weights(40, 200), Pattern.DENSE, 64)))
    for value in (0.0, -0.0, 1e-40, 1e-31):
        assert not product(np.full((2, 200), value, np.float32), path=path).any()


def test_no_rows_is_no_work() -> None:
    product = PackedProduct(pack(round_to_nearest(weights(40, 200), Pattern.DENSE, 64)))
    assert product(np.zeros((0, 200), np.float32)).shape == (0, 40)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("offset", [1, 4, 63])
def test_tiles_may_start_anywhere(offset: int, path: str) -> None:
    """A file that another program wrote need not align its tensors."""
    packed = pack(round_to_nearest(weights(64, 256), Pattern.ONE_OF_FOUR, 128))
    moved = np.zeros(packed.tiles.size + offset, np.uint8)[offset:]
    moved[:] = packed.tiles
    x_MK = weights(2, 256)
    elsewhere = PackedMatrix(packed.pattern, packed.values, 64, 256, packed.group_size_T, None, moved)
    np.testing.assert_array_equal(PackedProduct(elsewhere)(x_MK, path=path), PackedProduct(packed)(x_MK, path=path))


def test_threads_change_nothing() -> None:
    """Bit for bit: a tile is computed by one thread, whichever it is."""
    packed = pack(round_to_nearest(weights(1000, 1024), Pattern.TWO_OF_FOUR, 128))
    product, x_MK = PackedProduct(packed), weights(5, 1024)
    alone = product(x_MK, threads=1)
    for threads in (2, 3, 16):
        for _ in range(20):
            np.testing.assert_array_equal(product(x_MK, threads=threads), alone)


def test_calls_from_many_threads_do_not_mix() -> None:
    packed = pack(round_to_nearest(weights(1000, 1024), Pattern.TWO_OF_FOUR, 128))
    product = PackedProduct(packed)
    inputs = [weights(2, 1024, seed) for seed in range(4)]
    wanted = [product(x_MK, threads=1) for x_MK in inputs]
    wrong = []

    def call(number: int) -> None:
        for _ in range(50):
            if not np.array_equal(product(inputs[number], threads=2), wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_invalid_calls_are_refused() -> None:
    product = PackedProduct(pack(round_to_nearest(weights(40, 200), Pattern.DENSE, 64)))
    x_MK = weights(2, 200)
    with pytest.raises(ValueError, match="x has 199 columns; the matrix has 200"):
        product(np.ascontiguousarray(x_MK[:, :199]))
    with pytest.raises(ValueError, match="y is 2 x 41; this product is 2 x 40"):
        product(x_MK, out_MN=np.zeros((2, 41), np.float32))
    with pytest.raises(ValueError, match="activation_bits is 4"):
        product(x_MK, activation_bits=4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threads is 0"):
        product(x_MK, threads=0)
    with pytest.raises(ValueError, match=r"path 'sse' is not one of those .*portable"):
        product(x_MK, path="sse")
    for wrong in (x_MK.astype(np.float64), x_MK[:, ::2], x_MK[0], np.asfortranarray(x_MK)):
        with pytest.raises(TypeError):
            product(wrong)  # type: ignore[arg-type]
    read_only = np.zeros((2, 40), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(TypeError):
        product(x_MK, out_MN=read_only)


def test_usable_cores_is_bounded_by_the_affinity() -> None:
    assert usable_cores() >= 1
