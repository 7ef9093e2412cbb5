// What one lane does with the 32-bit words of its row: the parts of the kernel that are bit arithmetic.
//
// Everything here also compiles for the host, with plain C++ in place of the instructions, so that the arithmetic is
// tested where there is no GPU (tests/kernels/test_cuda_decode.py).
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define TRITON_ADS_HD __host__ __device__ __forceinline__
#else
#define TRITON_ADS_HD inline
#endif

namespace triton_ads {

struct Pair {
  float first, second;
};

// (a & b) ^ c in one instruction.
TRITON_ADS_HD uint32_t and_xor(uint32_t a, uint32_t b, uint32_t c) {
#ifdef __CUDA_ARCH__
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
#else
  return (a & b) ^ c;
#endif
}

// Bytes of {low, high} picked by the four lowest nibbles of `selector`.
TRITON_ADS_HD uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const uint64_t both = uint64_t(high) << 32 | low;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= uint32_t(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return out;
#endif
}

// The two codes whose nibbles stand at bit `shift` of the two 16-bit words of `v`, as floats.
//
// 0x6400 is 1024 in float16, where the last mantissa bit weighs 1: or-ing a nibble n into it gives 1024 + n. Flipping
// the nibble's top bit (n ^ 8 = code + 8) comes free in the same lop3; 1032 is subtracted exactly.
TRITON_ADS_HD Pair codes_at(uint32_t v, int shift) {
  const uint32_t biased = and_xor(v >> shift, 0x000f000fu, 0x64086408u);
#ifdef __CUDA_ARCH__
  const __half2 halves = __hsub2(*reinterpret_cast<const __half2*>(&biased), __half2half2(__ushort_as_half(0x6408)));
  const float2 both = __half22float2(halves);
  return {both.x, both.y};
#else
  return {float(int(biased & 0x3ff) - 8), float(int(biased >> 16 & 0x3ff) - 8)};
#endif
}

// The positions (0 to 3) at bit `shift` of the two words of `index`: the first in bits 0 and 1, the second in 16, 17.
TRITON_ADS_HD uint32_t positions_at(uint32_t index, int shift) { return index >> shift & 0x00030003u; }

// 2:4: both values of a pair stand in one quad of four halves, two registers. Half p is bytes 2 p and 2 p + 1, so a
// position becomes two selector nibbles by one multiply-add: p * 0x22 + 0x10.
TRITON_ADS_HD uint32_t pick_pair(uint32_t quad_low, uint32_t quad_high, uint32_t positions) {
  const uint32_t side_by_side = (positions | positions >> 8) & 0x0303u;
  return pick_bytes(quad_low, quad_high, side_by_side * 0x22u + 0x1010u);
}

// 1:4: a pair stands in two quads that follow each other, one value in each.
TRITON_ADS_HD uint32_t pick_from_two(uint32_t a_low, uint32_t a_high, uint32_t b_low, uint32_t b_high,
                                     uint32_t positions) {
  const uint32_t from_a = pick_bytes(a_low, a_high, (positions & 3u) * 0x22u + 0x10u);
  const uint32_t from_b = pick_bytes(b_low, b_high, (positions >> 16) * 0x22u + 0x10u);
  return pick_bytes(from_a, from_b, 0x5410u);
}

}  // namespace triton_ads
