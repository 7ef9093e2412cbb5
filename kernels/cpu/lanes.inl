// A few float32 lanes as one value: the compiler's vector types, which every instruction set has. Compiled into each
// path; sums are kept per lane, so nothing depends on relaxed rules for floats.

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "layout.h"

namespace triton_ads {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Bits __attribute__((vector_size(4 * kLanes)));

struct Half {
  uint16_t bits;
};

TRITON_ADS_INLINE Vec splat(float value) { return Vec{} + value; }

TRITON_ADS_INLINE Vec load(const float* from) {
  Vec v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
TRITON_ADS_INLINE void store(float* to, const Vec& v) { std::memcpy(to, &v, sizeof v); }

// a * b + c. Contraction is switched off for all kernels, so it is asked for.
TRITON_ADS_INLINE Vec multiply_add(const Vec& a, const Vec& b, const Vec& c) {
#if defined(__AVX512F__)
  return Vec(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#elif defined(__FMA__)
  return Vec(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
  return a * b + c;
#endif
}

TRITON_ADS_INLINE float sum_of(const Vec& v) {
  float sum = 0.0f;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}

[[maybe_unused]] float from_half(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 31, mantissa = half & 1023;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float value = float(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Round to nearest even, as the instruction does; what is too large becomes infinity.
[[maybe_unused]] uint16_t to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return uint16_t(sign | 0x7e00);  // not a number
  if (bits >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (bits < 0x38800000) {  // below 2^-14: adding 0.5 leaves the mantissa of 2^-24 steps in the last bits
    float magnitude;
    std::memcpy(&magnitude, &bits, 4);
    const float shifted = magnitude + 0.5f;
    uint32_t found;
    std::memcpy(&found, &shifted, 4);
    return uint16_t(sign | (found - 0x3f000000));
  }
  return uint16_t(sign | (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13);
}

TRITON_ADS_INLINE Vec load(const Half* from) {
#if defined(__AVX512F__)
  return Vec(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#elif defined(__F16C__)
  return Vec(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  Vec v;
  for (int i = 0; i < kLanes; ++i) v[i] = from_half(from[i].bits);
  return v;
#endif
}

// exp(x) to within 2 units in the last place for -87 <= x <= 88; the bounds' values beyond them.
TRITON_ADS_INLINE Vec exp_of(Vec x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: its last mantissa bit weighs 1
  x = x < -87.0f ? splat(-87.0f) : x;
  x = x > 88.0f ? splat(88.0f) : x;
  const Vec shifted = multiply_add(x, splat(1.44269504f), splat(kRound));
  const Vec n = shifted - kRound;
  Vec r = multiply_add(n, splat(-0.693359375f), x);
  r = multiply_add(n, splat(2.12194440e-4f), r);
  Vec y = multiply_add(r, splat(1.0f / 720), splat(1.0f / 120));
  y = multiply_add(y, r, splat(1.0f / 24));
  y = multiply_add(y, r, splat(1.0f / 6));
  y = multiply_add(y, r, splat(0.5f));
  y = multiply_add(y, r, splat(1.0f));
  y = multiply_add(y, r, splat(1.0f));
  // times 2^n: n is added to the exponent
  Bits scaled, power;
  std::memcpy(&scaled, &y, sizeof y);
  std::memcpy(&power, &shifted, sizeof shifted);
  scaled += power << 23;
  std::memcpy(&y, &scaled, sizeof y);
  return y;
}

}  // namespace
}  // namespace triton_ads
