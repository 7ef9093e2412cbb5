// Activations as the kernels read them: quantised once for a product, then shared by all tiles and threads.
//
// A block is 128 columns with one scale. INT4 products are exact integers within a block; the only error of A16 and
// A8 is the rounding of the activations to int16 or int8.
//
// An activation is stored as one byte (A8) or two (A16), its *digits*, each in a plane of its own, so that both
// precisions use the same byte shuffles and 8-bit dot products:
//
//   sparse   value + 2^(bits - 1), unsigned; A16: high byte plane, low byte plane. In column order.
//   dense    A8: the value, signed. A16: high, low with value = 256 high + low, both signed.
//            In lane order (columns 0, 2, 1, 3) within each four.
#pragma once

#include <cstddef>
#include <cstdint>

namespace triton_ads {

constexpr int kBlock = 128;      // columns that share an activation scale
constexpr int kSumColumns = 32;  // columns of one entry of `sums`: the smallest group

// A16 is the default. A8 halves the work of the dot products where the memory is not the limit.
enum class Arithmetic : int { kA16 = 0, kA8 = 1, kFloat = 2 };

// Rows are `stride` elements apart, a multiple of 256, and hold zeros beyond the real columns.
struct Activations {
  int rows = 0;
  size_t stride = 0;
  const uint8_t* digits = nullptr;  // A16, A8: [rows][1 or 2][stride]
  const float* x = nullptr;         // kFloat: [rows][stride], as given
  const float* scale = nullptr;     // A16, A8: [rows][stride / 128]
  const int32_t* sums = nullptr;    // A16, A8 dense: [rows][stride / 32], sums of the values
};

static constexpr int digits_of(Arithmetic a) { return a == Arithmetic::kA16 ? 2 : 1; }

// Where one row goes.
struct QuantisedRow {
  uint8_t* digits;
  float* scale;
  int32_t* sums;
};

}  // namespace triton_ads
