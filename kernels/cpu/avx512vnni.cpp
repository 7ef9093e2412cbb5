// The AVX-512 VNNI path. It aims at the memory roof: the time to read the tile once.
//
// Lane = row: 16 rows in a 512-bit register, four kept values of a row in its 32-bit lane, so `vpdpbusd` adds up a
// row's products without any sum across lanes.
//
//   INT4 broadcast the 4 (dense), 8 (2:4) or 16 (1:4) bytes of a unit's activations; the 2-bit positions become a
//        byte-shuffle control by one shift and one ternary-logic operation; `vpshufb` picks the activations,
//        `vpdpbusd` multiplies them. There is no signed-by-signed dot product: sparse takes activations + 128 and
//        subtracts 128 times the sum of weights, dense takes codes + 8 and subtracts 8 times the sum of activations.
//   A16  the same twice, for the high and the low byte of the activations. Unpacking the weights is most of the work
//        at M = 1, and this shares it; `vpdpwssd` with `vpermw` on pairs of 16-bit words was slower by a third.
//   BF16 `vpermilps` takes the shifted index word as it is (it looks at two bits); float32 multiply-add.
//
// The hardware prefetcher stops at 4 KiB pages; the software prefetch kPrefetch ahead does not.

#include <immintrin.h>

#include "paths.h"
#include "quantise.inl"

namespace triton_ads {
namespace {

constexpr int kPrefetch = 4096;

// Keeps the compiler from moving loads and prefetches across: gathered at the top of an unrolled loop they arrive as a
// burst that waits for free miss buffers, and a product takes half as long again.
TRITON_ADS_INLINE void keep_order() { asm volatile("" ::: "memory"); }

// Of a stretch of `Lines` lines, prefetches those of the given quarter, kPrefetch ahead; later quarters go on after
// it. Evenly spread and in order: the same lines asked for out of order cost a third.
template <int Lines>
TRITON_ADS_INLINE void prefetch_quarter(const uint8_t* bytes, int quarter) {
  keep_order();
  const uintptr_t ahead = reinterpret_cast<uintptr_t>(bytes) + kPrefetch;
  for (int line = quarter * Lines / 4; line < (quarter + 1) * Lines / 4; ++line)
    _mm_prefetch(reinterpret_cast<const char*>(ahead + 64 * line), _MM_HINT_T0);
}

TRITON_ADS_INLINE __m512i load(const uint8_t* bytes) { return _mm512_loadu_si512(bytes); }

// One digit of the activations of a unit, repeated over the register.
template <int Bytes>
TRITON_ADS_INLINE __m512i broadcast(const void* from) {
  if constexpr (Bytes == 4) {
    int32_t word;
    std::memcpy(&word, from, 4);
    return _mm512_set1_epi32(word);
  } else if constexpr (Bytes == 8) {
    int64_t word;
    std::memcpy(&word, from, 8);
    return _mm512_set1_epi64(word);
  } else {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
}

// A & B ^ C and A & B | C as ternary-logic tables.
constexpr int kAndXor = 0x6a, kAndOr = 0xea;

// The integer sums of a block: x[i] is the first digit of row i, `plane` the distance to its second digit. Both
// halves of a tile share each broadcast, which costs as much as a dot product.
template <Pattern P, int Digits, int Count, int Steps>
TRITON_ADS_INLINE void dot_block(const uint8_t* bytes, const uint8_t* const (&x)[Count], size_t plane,
                      const int32_t* const (&sums)[Count], __m512i (&dot)[Count][2]) {
  constexpr bool kDense = P == Pattern::kDense;
  const __m512i low = _mm512_set1_epi8(15), high = _mm512_set1_epi8(char(0xf0)), flip = _mm512_set1_epi8(8);
  const __m512i two_bits = _mm512_set1_epi8(3), ones = _mm512_set1_epi8(1);
  // The first column of the quad of byte j, in a unit: values 0, 2, 1, 3 stand in quads 0, 1, 0, 1 or 0, 2, 1, 3.
  const __m512i quad = _mm512_set1_epi32(P == Pattern::kTwoOfFour ? 0x04000400 : 0x0c040800);
  __m512i weight_sum[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512i digit_dot[Count][Digits][2];
  for (int i = 0; i < Count; ++i)
    for (int d = 0; d < Digits; ++d) digit_dot[i][d][0] = digit_dot[i][d][1] = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int s = 0; s < Steps; ++s, bytes += 2 * half_bytes(P)) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      prefetch_quarter<2 * half_bytes(P) / 64>(bytes, u);
      __m512i code[2], control[2];
      for (int h = 0; h < 2; ++h) {
        const uint8_t* half = bytes + h * half_bytes(P);
        const __m512i v = load(half + u / 2 * kPlane);
        if constexpr (kDense) {
          code[h] = _mm512_ternarylogic_epi32(u % 2 ? _mm512_srli_epi16(v, 4) : v, low, flip, kAndXor);
        } else {
          // 16 times the code: a nibble in the upper half of a byte is signed as it stands.
          code[h] = _mm512_and_si512(u % 2 ? v : _mm512_slli_epi16(v, 4), high);
          const __m512i index = load(half + 2 * kPlane);
          control[h] = _mm512_ternarylogic_epi32(u ? _mm512_srli_epi16(index, 2 * u) : index, two_bits, quad, kAndOr);
          weight_sum[h] = _mm512_dpbusd_epi32(weight_sum[h], ones, code[h]);
        }
      }
      for (int i = 0; i < Count; ++i) {
        for (int d = 0; d < Digits; ++d) {
          const __m512i unit =
              broadcast<unit_columns(P)>(x[i] + d * plane + s * step_columns(P) + u * unit_columns(P));
          for (int h = 0; h < 2; ++h) {
            __m512i& sum = digit_dot[i][d][h];
            if constexpr (kDense) {
              sum = _mm512_dpbusd_epi32(sum, code[h], unit);
            } else {
              sum = _mm512_dpbusd_epi32(sum, _mm512_shuffle_epi8(unit, control[h]), code[h]);
            }
          }
        }
      }
    }
  }
  for (int i = 0; i < Count; ++i) {
    int32_t x_sum = 0;
    if constexpr (kDense)
      for (int part = 0; part < Steps * step_columns(P) / kSumColumns; ++part) x_sum += sums[i][part];
    for (int h = 0; h < 2; ++h) {
      const __m512i excess =
          kDense ? _mm512_set1_epi32(8 * x_sum) : _mm512_slli_epi32(weight_sum[h], Digits == 2 ? 15 : 7);
      __m512i sum = digit_dot[i][0][h];
      if constexpr (Digits == 2) sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), digit_dot[i][1][h]);
      dot[i][h] = _mm512_sub_epi32(sum, excess);
    }
  }
}

template <Pattern P, Arithmetic A, int Count, int Block>
void product_blocks(const Tile& tile, const Activations& x, int first, float* y) {
  constexpr int kDigits = digits_of(A);
  constexpr int kSteps = Block / step_columns(P);
  constexpr int kBytes = kSteps * 2 * half_bytes(P);
  constexpr float kFactor = P == Pattern::kDense ? 1.0f : 1.0f / 16;
  const int blocks = tile.group / Block;
  const uint8_t* digits[Count];
  const float* x_scale[Count];
  const int32_t* sums[Count];
  __m512 sum[Count][2];
  for (int i = 0; i < Count; ++i) {
    digits[i] = x.digits + size_t(first + i) * kDigits * x.stride;
    x_scale[i] = x.scale + (first + i) * (x.stride / kBlock);
    sums[i] = x.sums + (first + i) * (x.stride / kSumColumns);
    sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  }
  const uint8_t* bytes = tile.bytes;
  size_t column = 0;
  for (int group = 0; group < tile.groups; ++group) {
    const uint8_t* scales = bytes + size_t(blocks) * kBytes;
    for (int b = 0; b < blocks; ++b) {
      __m512i dot[Count][2];
      dot_block<P, kDigits, Count, kSteps>(bytes, digits, x.stride, sums, dot);
      const __m512 scale[2] = {
          _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales))),
          _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales + 2 * kHalfRows))),
      };
      for (int i = 0; i < Count; ++i) {
        const __m512 of_x = _mm512_set1_ps(x_scale[i][column / kBlock] * kFactor);
        for (int h = 0; h < 2; ++h)
          sum[i][h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[i][h]), _mm512_mul_ps(scale[h], of_x), sum[i][h]);
        digits[i] += Block;
        sums[i] += Block / kSumColumns;
      }
      bytes += kBytes;
      column += Block;
    }
    bytes += kScaleBytes;
  }
  for (int i = 0; i < Count; ++i)
    for (int h = 0; h < 2; ++h) _mm512_storeu_ps(y + i * kTileRows + h * kHalfRows, sum[i][h]);
}

template <Pattern P, int Count>
void product_bf16(const Tile& tile, const Activations& x, int first, float* y) {
  const __m512i upper = _mm512_set1_epi32(int(0xffff0000));
  __m512 sum[Count][2];
  for (int i = 0; i < Count; ++i) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  const uint8_t* bytes = tile.bytes;
  const float* row = x.x + first * x.stride;
  for (int s = 0; s < tile.groups; ++s, bytes += 2 * bf16_half_bytes(P), row += step_columns(P)) {
#pragma GCC unroll 8
    for (int p = 0; p < kBf16Planes; ++p) {
      if (p % 2 == 0) prefetch_quarter<2 * bf16_half_bytes(P) / 64>(bytes, p / 2);
#pragma GCC unroll 2
      for (int word = 0; word < 2; ++word) {
        const int value = 2 * p + word;
        __m512 weight[2];
        __m512i control[2];
        for (int h = 0; h < 2; ++h) {
          const uint8_t* half = bytes + h * bf16_half_bytes(P);
          const __m512i v = load(half + p * kPlane);
          weight[h] = _mm512_castsi512_ps(word ? _mm512_and_si512(v, upper) : _mm512_slli_epi32(v, 16));
          if constexpr (P != Pattern::kDense) {
            const __m512i index = load(half + kBf16Planes * kPlane);
            control[h] = _mm512_srli_epi32(index, 8 * kLaneOrder[value % 4] + 2 * (value / 4));
          }
        }
        for (int i = 0; i < Count; ++i) {
          const float* from = row + i * x.stride;
          for (int h = 0; h < 2; ++h) {
            __m512 picked;
            if constexpr (P == Pattern::kDense) {
              picked = _mm512_set1_ps(from[value]);
            } else {
              const int quad = value / kept_of_four(P) * 4;
              picked = _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(from + quad)), control[h]);
            }
            sum[i][h] = _mm512_fmadd_ps(picked, weight[h], sum[i][h]);
          }
        }
      }
    }
  }
  for (int i = 0; i < Count; ++i)
    for (int h = 0; h < 2; ++h) _mm512_storeu_ps(y + i * kTileRows + h * kHalfRows, sum[i][h]);
}

template <Pattern P, Arithmetic A, int Count>
void product(const Tile& tile, const Activations& x, int first, float* y) {
  if constexpr (A == Arithmetic::kFloat) {
    product_bf16<P, Count>(tile, x, first, y);
  } else if constexpr (Count * digits_of(A) > 8) {
    // More sums than registers: two halves of the batch are faster.
    product<P, A, Count / 2>(tile, x, first, y);
    product<P, A, Count / 2>(tile, x, first + Count / 2, y + Count / 2 * kTileRows);
  } else if (tile.group >= kBlock) {
    product_blocks<P, A, Count, kBlock>(tile, x, first, y);
  } else if (tile.group == 64) {
    product_blocks<P, A, Count, 64>(tile, x, first, y);
  } else if constexpr (step_columns(P) <= 32) {
    product_blocks<P, A, Count, 32>(tile, x, first, y);
  }
}

bool cpu_has_avx512vnni() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

}  // namespace

const Path kAvx512Vnni = TRITON_ADS_PATH("avx512vnni", cpu_has_avx512vnni);

}  // namespace triton_ads
