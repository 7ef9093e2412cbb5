// A step of the CUDA kernel on the host: reads a tile and activations, prints one sum of code * activation a row.
// Standard input: pattern, steps; then the bytes of the steps; then integer activations, one a column.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <vector>

#include "../../kernels/cpu/layout.h"
#include "../../kernels/cuda/decode.cuh"

using namespace triton_ads;

// Activations are 16-bit integers here: picking moves bits and never looks at them.
static uint32_t two(const int16_t* from) {
  uint32_t out;
  std::memcpy(&out, from, 4);
  return out;
}

template <Pattern P>
float row_sum(const uint8_t* tile, int steps, int row, const int16_t* x) {
  float sum = 0;
  for (int s = 0; s < steps; ++s) {
    const uint8_t* step = tile + size_t(s) * 2 * half_bytes(P) + (row / kHalfRows) * half_bytes(P) + 4 * (row % kHalfRows);
    uint32_t words[3] = {};
    for (int w = 0; w < (P == Pattern::kDense ? 2 : 3); ++w) std::memcpy(&words[w], step + w * kPlane, 4);
    for (int unit = 0; unit < 4; ++unit) {
      for (int b = 0; b < 2; ++b) {
        const Pair code = codes_at(words[unit / 2], 4 * (unit % 2) + 8 * b);
        const int16_t* from = x + s * step_columns(P) + unit * unit_columns(P) + b * (unit_columns(P) / 2);
        const uint32_t positions = positions_at(words[2], 2 * unit + 8 * b);
        const uint32_t both = P == Pattern::kDense        ? two(from)
                              : P == Pattern::kTwoOfFour ? pick_pair(two(from), two(from + 2), positions)
                                                          : pick_from_two(two(from), two(from + 2), two(from + 4),
                                                                          two(from + 6), positions);
        sum += code.first * int16_t(both & 0xffff) + code.second * int16_t(both >> 16);
      }
    }
  }
  return sum;
}

int main() {
  int pattern, steps, value;
  std::cin >> pattern >> steps;
  const Pattern p = Pattern(pattern);
  std::vector<uint8_t> tile;
  for (int i = 0; i < steps * 2 * half_bytes(p); ++i) std::cin >> value, tile.push_back(uint8_t(value));
  std::vector<int16_t> x;
  for (int i = 0; i < steps * step_columns(p); ++i) std::cin >> value, x.push_back(int16_t(value));
  for (int row = 0; row < kTileRows; ++row) {
    const float sum = p == Pattern::kDense        ? row_sum<Pattern::kDense>(tile.data(), steps, row, x.data())
                      : p == Pattern::kTwoOfFour ? row_sum<Pattern::kTwoOfFour>(tile.data(), steps, row, x.data())
                                                  : row_sum<Pattern::kOneOfFour>(tile.data(), steps, row, x.data());
    std::printf("%d\n", int(sum));
  }
}
