// Quantises one row of activations. Included by every path, so that the compiler vectorises it for that path; all
// paths give the same integers. A block with a value that is not finite gets the scale NaN, so its outputs are NaN.

#include <cmath>
#include <cstring>
#include <limits>

#include "activations.h"

namespace triton_ads {
namespace {

// Largest magnitude as float32 bits: for non-negative floats the order of bits is the order of values, and an
// integer maximum vectorises without relaxing the rules for floats.
inline int32_t largest_bits(const float* x) {
  int32_t largest = 0;
  for (int i = 0; i < kBlock; ++i) {
    int32_t bits;
    std::memcpy(&bits, x + i, 4);
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

// Round to nearest even by adding 1.5 * 2^23, whose last mantissa bit weighs 1. Right for magnitudes below 2^22.
inline int32_t round_even(float value) {
  const float shifted = value + 12582912.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, 4);
  return bits - 0x4b400000;
}

// What to multiply a block by so that it spans -limit to limit, and its scale.
inline float block_factor(const float* x, float limit, float* scale) {
  const int32_t bits = largest_bits(x);
  float largest;
  std::memcpy(&largest, &bits, 4);
  if (bits >= 0x7f800000) {
    *scale = std::numeric_limits<float>::quiet_NaN();
    return 0.0f;
  }
  if (largest < 1e-30f) {  // limit / largest must not overflow
    *scale = 0.0f;
    return 0.0f;
  }
  *scale = largest / limit;
  return limit / largest;
}

// The largest magnitude of a quantised activation. 32512 leaves room for the carry of a signed low digit.
template <int Digits>
constexpr float kLimit = Digits == 2 ? 32512.0f : 127.0f;

// The digits of a block. By way of local arrays: bytes may alias anything, which would keep the loops from being
// vectorised.
template <int Digits>
inline void store_sparse(const int32_t (&value)[kBlock], int start, int padded, const QuantisedRow& out) {
  uint8_t digit[Digits][kBlock];
  for (int i = 0; i < kBlock; ++i) {
    const int32_t positive = value[i] + (Digits == 2 ? 32768 : 128);
    digit[0][i] = uint8_t(Digits == 2 ? positive >> 8 : positive);
    if constexpr (Digits == 2) digit[1][i] = uint8_t(positive);
  }
  for (int d = 0; d < Digits; ++d) std::memcpy(out.digits + size_t(d) * padded + start, digit[d], kBlock);
}

template <int Digits>
inline void store_dense(const int32_t (&value)[kBlock], int start, int padded, const QuantisedRow& out) {
  for (int part = 0; part < kBlock / kSumColumns; ++part) {
    int32_t sum = 0;
    for (int i = 0; i < kSumColumns; ++i) sum += value[part * kSumColumns + i];
    out.sums[start / kSumColumns + part] = sum;
  }
  uint32_t lanes[Digits][kBlock / 4];
  for (int i = 0; i < kBlock / 4; ++i) {
    // Columns 0, 2, 1, 3 become bytes 0 to 3 of a lane.
    const int32_t four[4] = {value[4 * i], value[4 * i + 2], value[4 * i + 1], value[4 * i + 3]};
    uint32_t high = 0, low = 0;
    for (int j = 0; j < 4; ++j) {
      high |= uint32_t((Digits == 2 ? (four[j] + 128) >> 8 : four[j]) & 255) << 8 * j;
      low |= uint32_t(four[j] & 255) << 8 * j;
    }
    lanes[0][i] = high;
    if constexpr (Digits == 2) lanes[1][i] = low;
  }
  for (int d = 0; d < Digits; ++d) std::memcpy(out.digits + size_t(d) * padded + start, lanes[d], kBlock);
}

template <int Digits, bool Dense>
void quantise_row(const float* x, int columns, int padded, const QuantisedRow& out) {
  for (int start = 0; start < padded; start += kBlock) {
    alignas(64) float tail[kBlock];
    const float* from = x + start;
    if (start + kBlock > columns) {
      const int real = start < columns ? columns - start : 0;
      std::memset(tail, 0, sizeof tail);
      if (real > 0) std::memcpy(tail, from, real * sizeof(float));
      from = tail;
    }
    const float factor = block_factor(from, kLimit<Digits>, out.scale + start / kBlock);
    alignas(64) int32_t value[kBlock] = {};
    // A factor of 0: nothing to keep; and infinity times 0 must not reach the integers.
    if (factor != 0.0f)
      for (int i = 0; i < kBlock; ++i) value[i] = round_even(from[i] * factor);
    if constexpr (Dense) {
      store_dense<Digits>(value, start, padded, out);
    } else {
      store_sparse<Digits>(value, start, padded, out);
    }
  }
}

constexpr int kProbePrefetch = 4096;

uint64_t read_bytes(const uint8_t* bytes, size_t count) {
  uint64_t lanes[32] = {};
  for (size_t i = 0; i + sizeof lanes <= count; i += sizeof lanes) {
    const uintptr_t ahead = reinterpret_cast<uintptr_t>(bytes + i) + kProbePrefetch;
    for (int line = 0; line < 4; ++line) __builtin_prefetch(reinterpret_cast<const void*>(ahead + 64 * line));
    for (int lane = 0; lane < 32; ++lane) {
      uint64_t word;
      std::memcpy(&word, bytes + i + 8 * lane, 8);
      lanes[lane] ^= word;
    }
  }
  uint64_t all = 0;
  for (uint64_t lane : lanes) all ^= lane;
  return all;
}

}  // namespace
}  // namespace triton_ads
