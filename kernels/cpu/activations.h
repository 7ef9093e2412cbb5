// Activations as the kernels read them: quantised once for a product, then shared by all tiles and threads.
//
// A block is 128 columns with one scale. INT4 products are exact integers within a block; the only error of A16 and
// A8 is the rounding of the activations to int16 or int8.
#pragma once

#include <cstddef>
#include <cstdint>

namespace triton_ads {

constexpr int kBlock = 128;      // columns that share an activation scale
constexpr int kSumColumns = 32;  // columns of one entry of `sums`: the smallest group

// A16 is the default. A8 halves the work of the dot products where the memory is not the limit.
enum class Arithmetic : int { kA16 = 0, kA8 = 1, kFloat = 2 };

// Rows are `stride` elements apart, a multiple of 256, zero (A8 sparse: 128) beyond the real columns.
struct Activations {
  int rows = 0;
  size_t stride = 0;
  const int16_t* x16 = nullptr;   // A16
  const uint8_t* x8 = nullptr;    // A8 sparse: x + 128 in column order. Dense: int8 in lane order within each four.
  const float* x = nullptr;       // kFloat: as given
  const float* scale = nullptr;   // [rows][stride / 128]
  const int32_t* sums = nullptr;  // A8 dense: [rows][stride / 32], sums of the int8 values
};

// How one row is quantised; chosen per path because it must not cost more than the product of a small matrix.
struct QuantisedRow {
  int16_t* x16;
  uint8_t* x8;
  float* scale;
  int32_t* sums;
};

}  // namespace triton_ads
