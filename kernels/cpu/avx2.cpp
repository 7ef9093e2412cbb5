// The AVX2 path (with FMA and F16C): the ideas of avx512vnni.cpp in registers of eight lanes, without dot products.
//
// A tile is worked on in quarters of eight rows. `vpmaddubsw` sums to int16, which is widened after each step: four
// units of two products of at most 255 * 8 stay below 2^15. A16 is A8 for each of the two bytes of an activation.

#include <immintrin.h>

#include "paths.h"
#include "quantise.inl"

namespace triton_ads {
namespace {

constexpr int kPrefetch = 4096;
constexpr int kQuarters = 4;
constexpr int kQuarterRows = 8;

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

TRITON_ADS_INLINE __m256i load(const uint8_t* bytes) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)); }

template <int Bytes>
TRITON_ADS_INLINE __m256i broadcast(const void* from) {
  if constexpr (Bytes == 4) {
    int32_t word;
    std::memcpy(&word, from, 4);
    return _mm256_set1_epi32(word);
  } else if constexpr (Bytes == 8) {
    int64_t word;
    std::memcpy(&word, from, 8);
    return _mm256_set1_epi64x(word);
  } else {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
}

// Where quarter q of plane `plane` of a step starts.
template <Pattern P>
TRITON_ADS_INLINE const uint8_t* quarter(const uint8_t* step, int plane, int q) {
  return step + (q / 2) * half_bytes(P) + plane * kPlane + (q % 2) * 32;
}

// The integer sums of a block for the rows of one quarter: x[i] is the first digit of row i, `plane` the distance to
// its second digit.
template <Pattern P, int Digits, int Count, int Steps>
TRITON_ADS_INLINE void dot_quarter(const uint8_t* bytes, int q, const uint8_t* const (&x)[Count], size_t plane,
                        const int32_t* const (&sums)[Count], __m256i (&dot)[Count]) {
  constexpr bool kDense = P == Pattern::kDense;
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1), two_bits = _mm256_set1_epi8(3);
  const __m256i quad = _mm256_set1_epi32(P == Pattern::kTwoOfFour ? 0x04000400 : 0x0c040800);
  const __m256i to_signed = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1,  //
                                             0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
  __m256i digit_dot[Count][Digits], weight_sum = _mm256_setzero_si256();
  for (int i = 0; i < Count; ++i)
    for (int d = 0; d < Digits; ++d) digit_dot[i][d] = _mm256_setzero_si256();
  const uint8_t* const start = bytes;
  for (int s = 0; s < Steps; ++s, bytes += 2 * half_bytes(P)) {
    prefetch_quarter<2 * half_bytes(P) / 64>(start, q * Steps + s);
    const __m256i v[2] = {load(quarter<P>(bytes, 0, q)), load(quarter<P>(bytes, 1, q))};
    __m256i code[4], control[4];
    for (int u = 0; u < 4; ++u) {
      const __m256i nibble = _mm256_and_si256(u % 2 ? _mm256_srli_epi16(v[u / 2], 4) : v[u / 2], low);
      if constexpr (kDense) {
        code[u] = _mm256_xor_si256(nibble, _mm256_set1_epi8(8));
      } else {
        code[u] = _mm256_shuffle_epi8(to_signed, nibble);
        const __m256i index = load(quarter<P>(bytes, 2, q));
        const __m256i shifted = u ? _mm256_srli_epi16(index, 2 * u) : index;
        control[u] = _mm256_or_si256(_mm256_and_si256(shifted, two_bits), quad);
      }
    }
    if constexpr (!kDense) {
      // Four codes of a byte sum to at most 32 in magnitude, so they fit a byte.
      const __m256i four = _mm256_add_epi8(_mm256_add_epi8(code[0], code[1]), _mm256_add_epi8(code[2], code[3]));
      const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), four);
      weight_sum = _mm256_add_epi32(weight_sum, _mm256_madd_epi16(pairs, ones));
    }
    for (int i = 0; i < Count; ++i) {
      for (int d = 0; d < Digits; ++d) {
        __m256i sum = _mm256_setzero_si256();
        for (int u = 0; u < 4; ++u) {
          const __m256i unit =
              broadcast<unit_columns(P)>(x[i] + d * plane + s * step_columns(P) + u * unit_columns(P));
          if constexpr (kDense) {
            sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(code[u], unit));
          } else {
            sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_shuffle_epi8(unit, control[u]), code[u]));
          }
        }
        digit_dot[i][d] = _mm256_add_epi32(digit_dot[i][d], _mm256_madd_epi16(sum, ones));
      }
    }
  }
  for (int i = 0; i < Count; ++i) {
    __m256i excess;
    if constexpr (kDense) {
      int32_t sum = 0;
      for (int part = 0; part < Steps * step_columns(P) / kSumColumns; ++part) sum += sums[i][part];
      excess = _mm256_set1_epi32(8 * sum);
    } else {
      excess = _mm256_slli_epi32(weight_sum, Digits == 2 ? 15 : 7);
    }
    dot[i] = digit_dot[i][0];
    if constexpr (Digits == 2) dot[i] = _mm256_add_epi32(_mm256_slli_epi32(dot[i], 8), digit_dot[i][1]);
    dot[i] = _mm256_sub_epi32(dot[i], excess);
  }
}

template <Pattern P, Arithmetic A, int Count, int Block>
void product_blocks(const Tile& tile, const Activations& x, int first, float* y) {
  constexpr int kDigits = digits_of(A);
  constexpr int kSteps = Block / step_columns(P);
  constexpr int kBytes = kSteps * 2 * half_bytes(P);
  const int blocks = tile.group / Block;
  const uint8_t* digits[Count];
  const float* x_scale[Count];
  const int32_t* sums[Count];
  __m256 sum[Count][kQuarters];
  for (int i = 0; i < Count; ++i) {
    digits[i] = x.digits + size_t(first + i) * kDigits * x.stride;
    x_scale[i] = x.scale + (first + i) * (x.stride / kBlock);
    sums[i] = x.sums + (first + i) * (x.stride / kSumColumns);
    for (int q = 0; q < kQuarters; ++q) sum[i][q] = _mm256_setzero_ps();
  }
  const uint8_t* bytes = tile.bytes;
  size_t column = 0;
  for (int group = 0; group < tile.groups; ++group) {
    const uint8_t* scales = bytes + size_t(blocks) * kBytes;
    for (int b = 0; b < blocks; ++b) {
      for (int q = 0; q < kQuarters; ++q) {
        __m256i dot[Count];
        dot_quarter<P, kDigits, Count, kSteps>(bytes, q, digits, x.stride, sums, dot);
        const __m256 scale =
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + 2 * kQuarterRows * q)));
        for (int i = 0; i < Count; ++i) {
          const __m256 of_x = _mm256_set1_ps(x_scale[i][column / kBlock]);
          sum[i][q] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[i]), _mm256_mul_ps(scale, of_x), sum[i][q]);
        }
      }
      for (int i = 0; i < Count; ++i) {
        digits[i] += Block;
        sums[i] += Block / kSumColumns;
      }
      bytes += kBytes;
      column += Block;
    }
    bytes += kScaleBytes;
  }
  for (int i = 0; i < Count; ++i)
    for (int q = 0; q < kQuarters; ++q) _mm256_storeu_ps(y + i * kTileRows + q * kQuarterRows, sum[i][q]);
}

template <Pattern P, int Count>
void product_bf16(const Tile& tile, const Activations& x, int first, float* y) {
  const __m256i upper = _mm256_set1_epi32(int(0xffff0000));
  __m256 sum[Count][kQuarters];
  for (int i = 0; i < Count; ++i)
    for (int q = 0; q < kQuarters; ++q) sum[i][q] = _mm256_setzero_ps();
  const uint8_t* bytes = tile.bytes;
  const float* row = x.x + first * x.stride;
  for (int s = 0; s < tile.groups; ++s, bytes += 2 * bf16_half_bytes(P), row += step_columns(P)) {
    for (int q = 0; q < kQuarters; ++q) {
      prefetch_quarter<2 * bf16_half_bytes(P) / 64>(bytes, q);
      const uint8_t* part = bytes + (q / 2) * bf16_half_bytes(P) + (q % 2) * 32;
#pragma GCC unroll 16
      for (int value = 0; value < kStepValues; ++value) {
        const __m256i v = load(part + value / 2 * kPlane);
        const __m256 weight =
            _mm256_castsi256_ps(value % 2 ? _mm256_and_si256(v, upper) : _mm256_slli_epi32(v, 16));
        for (int i = 0; i < Count; ++i) {
          const float* from = row + i * x.stride;
          __m256 picked;
          if constexpr (P == Pattern::kDense) {
            picked = _mm256_set1_ps(from[value]);
          } else {
            const __m256i index = load(part + kBf16Planes * kPlane);
            const __m256i control = _mm256_srli_epi32(index, 8 * kLaneOrder[value % 4] + 2 * (value / 4));
            const __m128 quad = _mm_loadu_ps(from + value / kept_of_four(P) * 4);
            picked = _mm256_permutevar_ps(_mm256_set_m128(quad, quad), control);
          }
          sum[i][q] = _mm256_fmadd_ps(picked, weight, sum[i][q]);
        }
      }
    }
  }
  for (int i = 0; i < Count; ++i)
    for (int q = 0; q < kQuarters; ++q) _mm256_storeu_ps(y + i * kTileRows + q * kQuarterRows, sum[i][q]);
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

bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

}  // namespace

const Path kAvx2 = TRITON_ADS_PATH("avx2", cpu_has_avx2);

}  // namespace triton_ads
