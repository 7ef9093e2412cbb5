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

template <typename Store>
inline void quantise_blocks(const float* x, int columns, int padded, float limit, float* scale, Store store) {
  for (int start = 0, block = 0; start < padded; start += kBlock, ++block) {
    alignas(64) float tail[kBlock];
    const float* from = x + start;
    if (start + kBlock > columns) {
      const int real = start < columns ? columns - start : 0;
      std::memset(tail, 0, sizeof tail);
      if (real > 0) std::memcpy(tail, from, real * sizeof(float));
      from = tail;
    }
    const float factor = block_factor(from, limit, scale + block);
    if (factor == 0.0f) {  // nothing to keep; and infinity times 0 must not reach the integer conversion
      std::memset(tail, 0, sizeof tail);
      from = tail;
    }
    store(from, start, factor);
  }
}

void quantise_row_16(const float* x, int columns, int padded, const QuantisedRow& out) {
  quantise_blocks(x, columns, padded, 32767.0f, out.scale, [&](const float* from, int start, float factor) {
    for (int i = 0; i < kBlock; ++i) out.x16[start + i] = int16_t(round_even(from[i] * factor));
  });
}

void quantise_row_8_sparse(const float* x, int columns, int padded, const QuantisedRow& out) {
  quantise_blocks(x, columns, padded, 127.0f, out.scale, [&](const float* from, int start, float factor) {
    for (int i = 0; i < kBlock; ++i) out.x8[start + i] = uint8_t(round_even(from[i] * factor) + 128);
  });
}

void quantise_row_8_dense(const float* x, int columns, int padded, const QuantisedRow& out) {
  quantise_blocks(x, columns, padded, 127.0f, out.scale, [&](const float* from, int start, float factor) {
    int8_t rounded[kBlock];
    for (int i = 0; i < kBlock; ++i) rounded[i] = int8_t(round_even(from[i] * factor));
    for (int part = 0; part < kBlock / kSumColumns; ++part) {
      int32_t sum = 0;
      for (int i = 0; i < kSumColumns; ++i) sum += rounded[part * kSumColumns + i];
      out.sums[start / kSumColumns + part] = sum;
    }
    for (int i = 0; i < kBlock; i += 4) {
      uint32_t lane;
      std::memcpy(&lane, rounded + i, 4);
      // Bytes 0, 2, 1, 3: the middle two change places.
      lane = (lane & 0xff0000ffu) | (lane & 0x0000ff00u) << 8 | (lane & 0x00ff0000u) >> 8;
      std::memcpy(out.x8 + start + i, &lane, 4);
    }
  });
}

// The bandwidth probe: reads every byte once with the widest loads that the path has.
uint64_t read_bytes(const uint8_t* bytes, size_t count) {
  uint64_t lanes[32] = {};
  for (size_t i = 0; i + sizeof lanes <= count; i += sizeof lanes) {
    __builtin_prefetch(bytes + i + 4096 < bytes + count ? bytes + i + 4096 : bytes + i);
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
