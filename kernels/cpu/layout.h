// The packed layout: constants that every path shares. docs/packed_format.md explains them.
//
//   tile  = 32 rows: group 0, group 1, ...
//   group = step 0, step 1, ..., 32 float16 scales
//   step  = half 0 (rows 0 to 15), half 1 (rows 16 to 31)
//
//   half of a step:   0        64       128      192
//                     +--------+--------+--------+    lane l of a plane = bytes 4 l to 4 l + 3 = row l of the half
//                     | V01    | V23    | I      |    (dense has no I)
//                     +--------+--------+--------+
//
//   byte j of a lane holds kept value {0, 2, 1, 3}[j] of a unit; V01: unit 0 in low nibbles, unit 1 in high nibbles;
//   V23: units 2 and 3; I: the position of unit u's value in bits 2 u and 2 u + 1.
//
// As two 16-bit words the low bytes of a lane are the values 0 and 1 of a unit, the high bytes 2 and 3: with
// b = 0 or 1, `V >> (4 (u % 2) + 8 b)` has the pair 2 b, 2 b + 1 in its lowest nibbles and `I >> (2 u + 8 b)` has
// the pair's positions in its lowest two bits.
#pragma once

#include <cstddef>
#include <cstdint>

// Functions here are static: each path is compiled for its own instruction set, and the linker must never give the
// portable path a copy that another path compiled.
namespace triton_ads {

// The pieces of a kernel must become one function: called, they would pass their registers through memory.
#define TRITON_ADS_INLINE inline __attribute__((always_inline))

#ifdef __CUDACC__
#define TRITON_ADS_CONSTEXPR static constexpr __host__ __device__
#else
#define TRITON_ADS_CONSTEXPR static constexpr
#endif

enum class Pattern : int { kDense = 0, kTwoOfFour = 1, kOneOfFour = 2 };
enum class Values : int { kInt4 = 0, kBf16 = 1 };

constexpr int kTileRows = 32;
constexpr int kHalfRows = 16;
constexpr int kStepValues = 16;   // kept values of a row in one step
constexpr int kPlane = 64;        // bytes of a plane: 16 lanes of 32 bits
constexpr int kScaleBytes = 64;   // 32 float16
constexpr int kBf16Planes = 8;    // planes of 16-bit values in half of a step
constexpr int kMaxGroup = 256;
constexpr int kLaneOrder[4] = {0, 2, 1, 3};

TRITON_ADS_CONSTEXPR int step_columns(Pattern p) {
  return p == Pattern::kDense ? 16 : p == Pattern::kTwoOfFour ? 32 : 64;
}
// Columns that one unit of four kept values covers.
TRITON_ADS_CONSTEXPR int unit_columns(Pattern p) { return step_columns(p) / 4; }
TRITON_ADS_CONSTEXPR int kept_of_four(Pattern p) { return p == Pattern::kDense ? 4 : p == Pattern::kTwoOfFour ? 2 : 1; }
TRITON_ADS_CONSTEXPR int index_bytes(Pattern p) { return p == Pattern::kDense ? 0 : kPlane; }
TRITON_ADS_CONSTEXPR int half_bytes(Pattern p) { return 2 * kPlane + index_bytes(p); }
TRITON_ADS_CONSTEXPR int bf16_half_bytes(Pattern p) { return kBf16Planes * kPlane + index_bytes(p); }

// Bytes of one tile. `group` is 0 for BF16 values. Sizes are bounded by 2^24 a side, so nothing overflows.
static inline size_t tile_bytes(Pattern p, Values v, int columns, int group) {
  if (v == Values::kBf16) {
    const size_t steps = (size_t(columns) + step_columns(p) - 1) / step_columns(p);
    return steps * 2 * bf16_half_bytes(p);
  }
  const size_t groups = (size_t(columns) + group - 1) / group;
  return groups * (size_t(group / step_columns(p)) * 2 * half_bytes(p) + kScaleBytes);
}

}  // namespace triton_ads
