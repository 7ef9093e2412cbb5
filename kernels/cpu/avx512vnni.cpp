// The AVX-512 VNNI path. It aims at the memory roof: the time to read the tile once.
//
// Lane = row: 16 rows in a 512-bit register, four kept values of a row in its 32-bit lane, so `vpdpbusd` and
// `vpdpwssd` add up a row's products without any sum across lanes.
//
//   A8   broadcast the 4 (dense), 8 (2:4) or 16 (1:4) int8 activations of a unit; the 2-bit positions become a byte
//        shuffle control by one shift and one ternary-logic operation; `vpshufb` picks the activations, `vpdpbusd`
//        multiplies them. There is no signed-by-signed dot product: sparse takes activations + 128 and subtracts 128
//        times the sum of weights, dense takes codes + 8 and subtracts 8 times the sum of activations.
//   A16  the same for pairs: `vpermw` takes the shifted index word as it is (2:4: four broadcast words repeat, so only
//        its two lowest bits matter); codes become int16 through a 16-entry `vpermw` table; `vpdpwssd`.
//   BF16 `vpermilps` takes the shifted index word as it is; float32 multiply-add.
//
// The hardware prefetcher stops at 4 KiB pages; the software prefetch kPrefetch ahead does not.

#include <immintrin.h>

#include "paths.h"
#include "quantise.inl"

namespace triton_ads {
namespace {

constexpr int kPrefetch = 4096;

inline void prefetch(const uint8_t* bytes, int count) {
  const uintptr_t ahead = reinterpret_cast<uintptr_t>(bytes) + kPrefetch;
  for (int i = 0; i < count; i += 64) _mm_prefetch(reinterpret_cast<const char*>(ahead + i), _MM_HINT_T0);
}

inline __m512i load(const uint8_t* bytes) { return _mm512_loadu_si512(bytes); }

// The activations of one unit (A8) or pair (A16), repeated over the register.
template <int Bytes>
inline __m512i broadcast(const void* from) {
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

// Adds the scaled integer sums of a block to the float sums.
template <int Count>
inline void add_block(__m512 (&sum)[Count][2], const __m512i (&dot)[Count][2], const uint8_t* scales,
                      const float* const (&x_scale)[Count], size_t block, float factor) {
  const __m512 scale[2] = {
      _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales))),
      _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales + 32))),
  };
  for (int i = 0; i < Count; ++i) {
    const __m512 of_x = _mm512_set1_ps(x_scale[i][block] * factor);
    for (int h = 0; h < 2; ++h)
      sum[i][h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[i][h]), _mm512_mul_ps(scale[h], of_x), sum[i][h]);
  }
}

template <Pattern P, int Count, int Steps>
inline void dot_a8(const uint8_t* bytes, const uint8_t* const (&x)[Count], const int32_t* const (&sums)[Count],
                   __m512i (&dot)[Count][2]) {
  const __m512i low = _mm512_set1_epi8(15);
  if constexpr (P == Pattern::kDense) {
    const __m512i flip = _mm512_set1_epi8(8);
    for (int i = 0; i < Count; ++i) {
      int32_t sum = 0;
      for (int part = 0; part < Steps * step_columns(P) / kSumColumns; ++part) sum += sums[i][part];
      dot[i][0] = dot[i][1] = _mm512_set1_epi32(-8 * sum);
    }
#pragma GCC unroll 8
    for (int s = 0; s < Steps; ++s, bytes += 2 * half_bytes(P)) {
      __m512i code[2][4];
      for (int h = 0; h < 2; ++h) {
        for (int p = 0; p < 2; ++p) {
          const __m512i v = load(bytes + h * half_bytes(P) + p * kPlane);
          code[h][2 * p] = _mm512_ternarylogic_epi32(v, low, flip, kAndXor);
          code[h][2 * p + 1] = _mm512_ternarylogic_epi32(_mm512_srli_epi16(v, 4), low, flip, kAndXor);
        }
      }
      for (int u = 0; u < 4; ++u) {
        for (int i = 0; i < Count; ++i) {
          const __m512i picked = broadcast<4>(x[i] + s * step_columns(P) + u * unit_columns(P));
          for (int h = 0; h < 2; ++h) dot[i][h] = _mm512_dpbusd_epi32(dot[i][h], code[h][u], picked);
        }
      }
    }
  } else {
    const __m512i high = _mm512_set1_epi8(char(0xf0)), two_bits = _mm512_set1_epi8(3), ones = _mm512_set1_epi8(1);
    // The first column of the quad of byte j, in a unit: values 0, 2, 1, 3 stand in quads 0, 1, 0, 1 or 0, 2, 1, 3.
    const __m512i quad = _mm512_set1_epi32(P == Pattern::kTwoOfFour ? 0x04000400 : 0x0c040800);
    __m512i weight_sum[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int i = 0; i < Count; ++i) dot[i][0] = dot[i][1] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int s = 0; s < Steps; ++s, bytes += 2 * half_bytes(P)) {
      __m512i code[2][4], control[2][4];
      for (int h = 0; h < 2; ++h) {
        const uint8_t* half = bytes + h * half_bytes(P);
        const __m512i index = load(half + 2 * kPlane);
        for (int p = 0; p < 2; ++p) {
          const __m512i v = load(half + p * kPlane);
          // 16 times the code: a nibble in the upper half of a byte is signed as it stands.
          code[h][2 * p] = _mm512_and_si512(_mm512_slli_epi16(v, 4), high);
          code[h][2 * p + 1] = _mm512_and_si512(v, high);
        }
        for (int u = 0; u < 4; ++u) {
          const __m512i shifted = u ? _mm512_srli_epi16(index, 2 * u) : index;
          control[h][u] = _mm512_ternarylogic_epi32(shifted, two_bits, quad, kAndOr);
          weight_sum[h] = _mm512_dpbusd_epi32(weight_sum[h], ones, code[h][u]);
        }
      }
      for (int u = 0; u < 4; ++u) {
        for (int i = 0; i < Count; ++i) {
          const __m512i unit = broadcast<unit_columns(P)>(x[i] + s * step_columns(P) + u * unit_columns(P));
          for (int h = 0; h < 2; ++h) {
            const __m512i picked = _mm512_shuffle_epi8(unit, control[h][u]);
            dot[i][h] = _mm512_dpbusd_epi32(dot[i][h], picked, code[h][u]);
          }
        }
      }
    }
    for (int h = 0; h < 2; ++h) {
      const __m512i excess = _mm512_slli_epi32(weight_sum[h], 7);
      for (int i = 0; i < Count; ++i) dot[i][h] = _mm512_sub_epi32(dot[i][h], excess);
    }
  }
}

template <Pattern P, int Count, int Steps>
inline void dot_a16(const uint8_t* bytes, const int16_t* const (&x)[Count], __m512i (&dot)[Count][2]) {
  // Nibble to int16, twice over because `vpermw` looks at five bits.
  const __m512i codes = _mm512_set_epi16(-1, -2, -3, -4, -5, -6, -7, -8, 7, 6, 5, 4, 3, 2, 1, 0,  //
                                         -1, -2, -3, -4, -5, -6, -7, -8, 7, 6, 5, 4, 3, 2, 1, 0);
  // 1:4: bit 2 of a control says which of the pair's two quads, the quad of word 1 being the second.
  const __m512i not_quad = _mm512_set1_epi16(~4), quad = _mm512_set1_epi32(0x00040000);
  constexpr int kPairColumns = unit_columns(P) / 2;
  for (int i = 0; i < Count; ++i) dot[i][0] = dot[i][1] = _mm512_setzero_si512();
#pragma GCC unroll 8
  for (int s = 0; s < Steps; ++s, bytes += 2 * half_bytes(P)) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
#pragma GCC unroll 2
      for (int b = 0; b < 2; ++b) {
        __m512i code[2], control[2];
        for (int h = 0; h < 2; ++h) {
          const uint8_t* half = bytes + h * half_bytes(P);
          const __m512i v = load(half + u / 2 * kPlane);
          const int shift = 4 * (u % 2) + 8 * b;
          code[h] = _mm512_permutexvar_epi16(shift ? _mm512_srli_epi16(v, shift) : v, codes);
          if constexpr (P != Pattern::kDense) {
            const __m512i index = load(half + 2 * kPlane);
            control[h] = u + b ? _mm512_srli_epi16(index, 2 * u + 8 * b) : index;
            if constexpr (P == Pattern::kOneOfFour)
              control[h] = _mm512_ternarylogic_epi32(control[h], not_quad, quad, kAndOr);
          }
        }
        for (int i = 0; i < Count; ++i) {
          const int column = s * step_columns(P) + u * unit_columns(P) + b * kPairColumns;
          const __m512i pair = broadcast<2 * kPairColumns>(x[i] + column);
          for (int h = 0; h < 2; ++h) {
            const __m512i picked = P == Pattern::kDense ? pair : _mm512_permutexvar_epi16(control[h], pair);
            dot[i][h] = _mm512_dpwssd_epi32(dot[i][h], picked, code[h]);
          }
        }
      }
    }
  }
}

template <Pattern P, Arithmetic A, int Count, int Block>
void product_blocks(const Tile& tile, const Activations& x, int first, float* y) {
  constexpr int kSteps = Block / step_columns(P);
  constexpr int kBytes = kSteps * 2 * half_bytes(P);
  const int blocks = tile.group / Block;
  const uint8_t* x8[Count];
  const int16_t* x16[Count];
  const float* x_scale[Count];
  const int32_t* sums[Count];
  __m512 sum[Count][2];
  for (int i = 0; i < Count; ++i) {
    if constexpr (A == Arithmetic::kA8) {
      x8[i] = x.x8 + (first + i) * x.stride;
      sums[i] = x.sums ? x.sums + (first + i) * (x.stride / kSumColumns) : nullptr;
    } else {
      x16[i] = x.x16 + (first + i) * x.stride;
    }
    x_scale[i] = x.scale + (first + i) * (x.stride / kBlock);
    sum[i][0] = sum[i][1] = _mm512_setzero_ps();
  }
  const uint8_t* bytes = tile.bytes;
  size_t column = 0;
  for (int group = 0; group < tile.groups; ++group) {
    const uint8_t* scales = bytes + size_t(blocks) * kBytes;
    for (int b = 0; b < blocks; ++b) {
      prefetch(bytes, kBytes + kScaleBytes);
      __m512i dot[Count][2];
      if constexpr (A == Arithmetic::kA8) {
        dot_a8<P, Count, kSteps>(bytes, x8, sums, dot);
        for (int i = 0; i < Count; ++i) {
          x8[i] += Block;
          if constexpr (P == Pattern::kDense) sums[i] += Block / kSumColumns;
        }
      } else {
        dot_a16<P, Count, kSteps>(bytes, x16, dot);
        for (int i = 0; i < Count; ++i) x16[i] += Block;
      }
      constexpr float kFactor = A == Arithmetic::kA8 && P != Pattern::kDense ? 1.0f / 16 : 1.0f;
      add_block<Count>(sum, dot, scales, x_scale, column / kBlock, kFactor);
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
    prefetch(bytes, 2 * bf16_half_bytes(P));
#pragma GCC unroll 8
    for (int p = 0; p < kBf16Planes; ++p) {
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

#define ROW(P, A) {product<P, A, 1>, product<P, A, 2>, product<P, A, 3>, product<P, A, 4>, product<P, A, 5>}
#define PATTERN(P) {ROW(P, Arithmetic::kA16), ROW(P, Arithmetic::kA8), ROW(P, Arithmetic::kFloat)}

const Path kAvx512Vnni = {
    "avx512vnni",
    cpu_has_avx512vnni,
    {PATTERN(Pattern::kDense), PATTERN(Pattern::kTwoOfFour), PATTERN(Pattern::kOneOfFour)},
    quantise_row_16,
    quantise_row_8_sparse,
    quantise_row_8_dense,
    read_bytes,
};

}  // namespace triton_ads
