// The product of activations with packed matrices: y[m][n] = sum over k of x[m][k] * weight[n][k].
#pragma once

#include <cstdint>
#include <span>

#include "matrix.h"
#include "paths.h"

namespace triton_ads {

struct ProductOptions {
  Arithmetic arithmetic = Arithmetic::kA16;  // of INT4 matrices; BF16 matrices always multiply float32
  int threads = 1;                           // an upper bound; see pool.h
  const Path* path = nullptr;                // null: the fastest
};

// One matrix and where its product goes: float32 [count][rows], contiguous.
struct Product {
  const Matrix* matrix;
  float* y;
  // Only these tiles, ascending: the other outputs are left as they are. Empty: all tiles.
  std::span<const int> tiles = {};
};

constexpr int kMaxProducts = 4;

// x: float32 [count][columns], contiguous. Any count >= 0; made for 1 to 32.
void multiply(const Matrix& matrix, const float* x, int64_t count, float* y, const ProductOptions& options);

// The same for up to kMaxProducts matrices of as many columns: x is quantised once, and threads share all tiles.
void multiply(std::span<const Product> products, const float* x, int64_t count, const ProductOptions& options);

}  // namespace triton_ads
