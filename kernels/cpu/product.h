// The product of activations with a packed matrix: y[m][n] = sum over k of x[m][k] * weight[n][k].
#pragma once

#include <cstdint>

#include "matrix.h"
#include "paths.h"

namespace triton_ads {

struct ProductOptions {
  Arithmetic arithmetic = Arithmetic::kA16;  // of INT4 matrices; BF16 matrices always multiply float32
  int threads = 1;                           // an upper bound; see pool.h
  const Path* path = nullptr;                // null: the fastest
};

// x: float32 [count][columns], y: float32 [count][rows], both contiguous. Any count >= 0; made for 1 to 32.
void multiply(const Matrix& matrix, const float* x, int64_t count, float* y, const ProductOptions& options);

}  // namespace triton_ads
