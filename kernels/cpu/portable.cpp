// The portable path: the layout read value by value in plain C++. It is the reference for the other paths and what
// runs on a CPU without AVX2. It aims at being obviously right, not at the memory roof.

#include "paths.h"
#include "quantise.inl"

namespace triton_ads {
namespace {

float from_half(const uint8_t* bytes) {
  uint16_t half;
  std::memcpy(&half, bytes, 2);
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

// The column, within its unit, of kept value `value` (0 to 3) whose position is `position`.
template <Pattern P>
constexpr int column_in_unit(int value, int position) {
  return P == Pattern::kDense ? value : P == Pattern::kTwoOfFour ? value / 2 * 4 + position : value * 4 + position;
}

// Sum of code * activation over `steps` steps for one row. `step` points at the row's half of the first step.
template <Pattern P, typename X>
int32_t dot_steps(const uint8_t* step, int lane, int steps, X x) {
  int32_t sum = 0;
  for (int s = 0; s < steps; ++s, step += 2 * half_bytes(P)) {
    for (int unit = 0; unit < 4; ++unit) {
      for (int j = 0; j < 4; ++j) {
        const int byte = 4 * lane + j;
        const int nibble = step[unit / 2 * kPlane + byte] >> 4 * (unit % 2) & 15;
        const int code = (nibble ^ 8) - 8;
        const int position = P == Pattern::kDense ? 0 : step[2 * kPlane + byte] >> 2 * unit & 3;
        sum += code * x(s * step_columns(P) + unit * unit_columns(P) + column_in_unit<P>(kLaneOrder[j], position));
      }
    }
  }
  return sum;
}

// The quantised activation of a row and column, put together from its digits.
template <Pattern P, Arithmetic A>
int32_t activation(const Activations& x, int row, size_t column) {
  constexpr int kDigits = digits_of(A);
  const uint8_t* plane = x.digits + size_t(row) * kDigits * x.stride;
  if constexpr (P == Pattern::kDense) {
    const size_t place = (column & ~size_t(3)) + kLaneOrder[column & 3];
    const int32_t high = int8_t(plane[place]);
    return kDigits == 2 ? 256 * high + int8_t(plane[x.stride + place]) : high;
  } else {
    return kDigits == 2 ? 256 * plane[column] + plane[x.stride + column] - 32768 : plane[column] - 128;
  }
}

template <Pattern P, Arithmetic A>
void product_int4(const Tile& tile, const Activations& x, int first, int count, float* y) {
  const int block = tile.group < kBlock ? tile.group : kBlock;
  const int steps = block / step_columns(P);
  const size_t group_bytes = size_t(tile.group / step_columns(P)) * 2 * half_bytes(P) + kScaleBytes;
  for (int i = 0; i < count; ++i) {
    for (int row = 0; row < kTileRows; ++row) {
      float sum = 0.0f;
      for (int group = 0; group < tile.groups; ++group) {
        const uint8_t* bytes = tile.bytes + group * group_bytes;
        const float scale = from_half(bytes + group_bytes - kScaleBytes + 2 * row);
        for (int start = 0; start < tile.group; start += block) {
          const uint8_t* step = bytes + size_t(start / step_columns(P) * 2 + row / kHalfRows) * half_bytes(P);
          const size_t column = size_t(group) * tile.group + start;
          const int32_t dot = dot_steps<P>(step, row % kHalfRows, steps, [&](int offset) {
            return activation<P, A>(x, first + i, column + offset);
          });
          sum += float(dot) * (scale * x.scale[(first + i) * (x.stride / kBlock) + column / kBlock]);
        }
      }
      y[i * kTileRows + row] = sum;
    }
  }
}

template <Pattern P>
void product_bf16(const Tile& tile, const Activations& x, int first, int count, float* y) {
  for (int i = 0; i < count; ++i) {
    for (int row = 0; row < kTileRows; ++row) {
      float sum = 0.0f;
      const int lane = row % kHalfRows;
      for (int s = 0; s < tile.groups; ++s) {
        const uint8_t* half = tile.bytes + size_t(s * 2 + row / kHalfRows) * bf16_half_bytes(P);
        for (int value = 0; value < kStepValues; ++value) {
          uint16_t high;
          std::memcpy(&high, half + value / 2 * kPlane + 4 * lane + 2 * (value % 2), 2);
          const uint32_t bits = uint32_t(high) << 16;
          float weight;
          std::memcpy(&weight, &bits, 4);
          const int unit = value / 4, j = kLaneOrder[value % 4];
          const int position =
              P == Pattern::kDense ? 0 : half[kBf16Planes * kPlane + 4 * lane + j] >> 2 * unit & 3;
          const int column =
              s * step_columns(P) + unit * unit_columns(P) + column_in_unit<P>(value % 4, position);
          sum += weight * x.x[(first + i) * x.stride + column];
        }
      }
      y[i * kTileRows + row] = sum;
    }
  }
}

template <Pattern P, Arithmetic A, int Count>
void product(const Tile& tile, const Activations& x, int first, float* y) {
  if constexpr (A == Arithmetic::kFloat) {
    product_bf16<P>(tile, x, first, Count, y);
  } else {
    product_int4<P, A>(tile, x, first, Count, y);
  }
}

bool always() { return true; }

}  // namespace

const Path kPortable = TRITON_ADS_PATH("portable", always);

}  // namespace triton_ads
