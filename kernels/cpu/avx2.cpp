// The AVX2 path (with FMA and F16C): the ideas of avx512vnni.cpp in registers of eight lanes, without dot products.
//
// A tile is worked on in quarters of eight rows. A8 uses `vpmaddubsw` and widens its int16 sums after each step: four
// units of two products of at most 255 * 8 stay below 2^15. A16 turns a position into a byte-shuffle control by one
// multiplication: word p of the activations is bytes 2 p and 2 p + 1, and p * 0x0202 + 0x0100 says so.

#include <immintrin.h>

#include "paths.h"
#include "quantise.inl"

namespace triton_ads {
namespace {

constexpr int kPrefetch = 4096;
constexpr int kQuarters = 4;
constexpr int kQuarterRows = 8;

inline void prefetch(const uint8_t* bytes, int count) {
  const uintptr_t ahead = reinterpret_cast<uintptr_t>(bytes) + kPrefetch;
  for (int i = 0; i < count; i += 64) _mm_prefetch(reinterpret_cast<const char*>(ahead + i), _MM_HINT_T0);
}

inline __m256i load(const uint8_t* bytes) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)); }

template <int Bytes>
inline __m256i broadcast(const void* from) {
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
inline const uint8_t* quarter(const uint8_t* step, int plane, int q) {
  return step + (q / 2) * half_bytes(P) + plane * kPlane + (q % 2) * 32;
}

template <Pattern P, int Count, int Steps>
inline void dot_a8(const uint8_t* bytes, int q, const uint8_t* const (&x)[Count], const int32_t* const (&sums)[Count],
                   __m256i (&dot)[Count]) {
  const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  for (int i = 0; i < Count; ++i) {
    int32_t sum = 0;
    if constexpr (P == Pattern::kDense)
      for (int part = 0; part < Steps * step_columns(P) / kSumColumns; ++part) sum += sums[i][part];
    dot[i] = _mm256_set1_epi32(-8 * sum);
  }
  for (int s = 0; s < Steps; ++s, bytes += 2 * half_bytes(P)) {
    const __m256i v[2] = {load(quarter<P>(bytes, 0, q)), load(quarter<P>(bytes, 1, q))};
    __m256i code[4];
    for (int u = 0; u < 4; ++u)
      code[u] = _mm256_and_si256(u % 2 ? _mm256_srli_epi16(v[u / 2], 4) : v[u / 2], low);
    if constexpr (P == Pattern::kDense) {
      for (int u = 0; u < 4; ++u) code[u] = _mm256_xor_si256(code[u], _mm256_set1_epi8(8));
      for (int i = 0; i < Count; ++i) {
        __m256i sum = _mm256_setzero_si256();
        for (int u = 0; u < 4; ++u) {
          const __m256i unit = broadcast<4>(x[i] + s * step_columns(P) + u * unit_columns(P));
          sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(code[u], unit));
        }
        dot[i] = _mm256_add_epi32(dot[i], _mm256_madd_epi16(sum, ones));
      }
    } else {
      const __m256i to_signed = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1,  //
                                                 0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
      const __m256i quad = _mm256_set1_epi32(P == Pattern::kTwoOfFour ? 0x04000400 : 0x0c040800);
      const __m256i two_bits = _mm256_set1_epi8(3), offset = _mm256_set1_epi8(char(128));
      const __m256i index = load(quarter<P>(bytes, 2, q));
      __m256i control[4];
      for (int u = 0; u < 4; ++u) {
        code[u] = _mm256_shuffle_epi8(to_signed, code[u]);
        const __m256i shifted = u ? _mm256_srli_epi16(index, 2 * u) : index;
        control[u] = _mm256_or_si256(_mm256_and_si256(shifted, two_bits), quad);
      }
      // Four codes of a byte sum to at most 32 in magnitude; 128 times that is what activations + 128 add.
      const __m256i code_sum = _mm256_add_epi8(_mm256_add_epi8(code[0], code[1]), _mm256_add_epi8(code[2], code[3]));
      const __m256i excess = _mm256_maddubs_epi16(offset, code_sum);
      for (int i = 0; i < Count; ++i) {
        __m256i sum = _mm256_setzero_si256();
        for (int u = 0; u < 4; ++u) {
          const __m256i unit = broadcast<unit_columns(P)>(x[i] + s * step_columns(P) + u * unit_columns(P));
          sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(_mm256_shuffle_epi8(unit, control[u]), code[u]));
        }
        dot[i] = _mm256_add_epi32(dot[i], _mm256_madd_epi16(_mm256_sub_epi16(sum, excess), ones));
      }
    }
  }
}

template <Pattern P, int Count, int Steps>
inline void dot_a16(const uint8_t* bytes, int q, const int16_t* const (&x)[Count], __m256i (&dot)[Count]) {
  constexpr int kPairColumns = unit_columns(P) / 2;
  const __m256i two_bits = _mm256_set1_epi16(3), twice = _mm256_set1_epi16(0x0202);
  // Word 1 of a pair stands in the same quad (2:4) or in the next one, eight bytes on (1:4).
  const __m256i base = _mm256_set1_epi32(P == Pattern::kTwoOfFour ? 0x01000100 : 0x09080100);
  for (int i = 0; i < Count; ++i) dot[i] = _mm256_setzero_si256();
  for (int s = 0; s < Steps; ++s, bytes += 2 * half_bytes(P)) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      const __m256i v = load(quarter<P>(bytes, u / 2, q));
#pragma GCC unroll 2
      for (int b = 0; b < 2; ++b) {
        // The nibble moves to the top of its word, then back down with its sign.
        const __m256i code = _mm256_srai_epi16(_mm256_slli_epi16(v, 12 - 4 * (u % 2) - 8 * b), 12);
        __m256i control = base;
        if constexpr (P != Pattern::kDense) {
          const __m256i index = _mm256_srli_epi16(load(quarter<P>(bytes, 2, q)), 2 * u + 8 * b);
          control = _mm256_add_epi16(_mm256_mullo_epi16(_mm256_and_si256(index, two_bits), twice), base);
        }
        for (int i = 0; i < Count; ++i) {
          const int column = s * step_columns(P) + u * unit_columns(P) + b * kPairColumns;
          const __m256i pair = broadcast<2 * kPairColumns>(x[i] + column);
          const __m256i picked = P == Pattern::kDense ? pair : _mm256_shuffle_epi8(pair, control);
          dot[i] = _mm256_add_epi32(dot[i], _mm256_madd_epi16(picked, code));
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
  __m256 sum[Count][kQuarters];
  for (int i = 0; i < Count; ++i)
    for (int q = 0; q < kQuarters; ++q) sum[i][q] = _mm256_setzero_ps();
  const uint8_t* bytes = tile.bytes;
  size_t column = 0;
  for (int group = 0; group < tile.groups; ++group) {
    const uint8_t* scales = bytes + size_t(blocks) * kBytes;
    for (int b = 0; b < blocks; ++b, bytes += kBytes, column += Block) {
      prefetch(bytes, kBytes + kScaleBytes);
      const uint8_t* x8[Count];
      const int16_t* x16[Count];
      const int32_t* sums[Count];
      for (int i = 0; i < Count; ++i) {
        if constexpr (A == Arithmetic::kA8) {
          x8[i] = x.x8 + (first + i) * x.stride + column;
          sums[i] = x.sums ? x.sums + ((first + i) * x.stride + column) / kSumColumns : nullptr;
        } else {
          x16[i] = x.x16 + (first + i) * x.stride + column;
        }
      }
      for (int q = 0; q < kQuarters; ++q) {
        __m256i dot[Count];
        if constexpr (A == Arithmetic::kA8) {
          dot_a8<P, Count, kSteps>(bytes, q, x8, sums, dot);
        } else {
          dot_a16<P, Count, kSteps>(bytes, q, x16, dot);
        }
        const __m256 scale =
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(scales + 2 * kQuarterRows * q)));
        for (int i = 0; i < Count; ++i) {
          const __m256 of_x = _mm256_set1_ps(x.scale[((first + i) * x.stride + column) / kBlock]);
          sum[i][q] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[i]), _mm256_mul_ps(scale, of_x), sum[i][q]);
        }
      }
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
    prefetch(bytes, 2 * bf16_half_bytes(P));
    for (int q = 0; q < kQuarters; ++q) {
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

#define ROW(P, A) {product<P, A, 1>, product<P, A, 2>, product<P, A, 3>, product<P, A, 4>, product<P, A, 5>}
#define PATTERN(P) {ROW(P, Arithmetic::kA16), ROW(P, Arithmetic::kA8), ROW(P, Arithmetic::kFloat)}

const Path kAvx2 = {
    "avx2",
    cpu_has_avx2,
    {PATTERN(Pattern::kDense), PATTERN(Pattern::kTwoOfFour), PATTERN(Pattern::kOneOfFour)},
    quantise_row_16,
    quantise_row_8_sparse,
    quantise_row_8_dense,
    read_bytes,
};

}  // namespace triton_ads
