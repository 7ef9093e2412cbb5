// Norms, activations and conversions of a decoder, and the table of a path. Compiled into each path.

#include <cmath>

#include "attention.inl"
#include "operators.h"

namespace triton_ads {
namespace {

// f(first element, lanes that count) over n elements; the last piece may be partial.
template <typename F>
TRITON_ADS_INLINE void over(size_t n, F f) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, size_t(kLanes));
  if (i < n) f(i, n - i);
}

// Lanes that do not count hold `fill`.
TRITON_ADS_INLINE Vec load_some(const float* from, size_t count, float fill = 0.0f) {
  if (count == size_t(kLanes)) return load(from);
  Vec v = splat(fill);
  for (size_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
}
TRITON_ADS_INLINE void store_some(float* to, size_t count, const Vec& v) {
  if (count == size_t(kLanes)) return store(to, v);
  for (size_t i = 0; i < count; ++i) to[i] = v[i];
}

void rms_norm(const float* x, const float* weight, int n, float epsilon, float* y) {
  Vec squares = Vec{};
  over(size_t(n), [&](size_t i, size_t count) {
    const Vec v = load_some(x + i, count);
    squares = multiply_add(v, v, squares);
  });
  const Vec factor = splat(1.0f / std::sqrt(sum_of(squares) / float(n) + epsilon));
  over(size_t(n), [&](size_t i, size_t count) {
    store_some(y + i, count, load_some(x + i, count) * factor * load_some(weight + i, count));
  });
}

void silu_multiply(float* gate, const float* up, size_t n) {
  over(n, [&](size_t i, size_t count) {
    const Vec g = load_some(gate + i, count);
    store_some(gate + i, count, g / (exp_of(-g) + 1.0f) * load_some(up + i, count));
  });
}

void add(float* x, const float* y, size_t n) {
  over(n, [&](size_t i, size_t count) { store_some(x + i, count, load_some(x + i, count) + load_some(y + i, count)); });
}

float log_sum_exp(const float* x, size_t n) {
  float largest = x[0];
  for (size_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  Vec sum = Vec{};
  over(n, [&](size_t i, size_t count) { sum += exp_of(load_some(x + i, count, -1e30f) - largest); });
  return largest + std::log(sum_of(sum));
}

void store_float32(const float* x, int n, void* to, size_t stride) {
  float* out = static_cast<float*>(to);
  for (int i = 0; i < n; ++i) out[i * stride] = x[i];
}

void store_float16(const float* x, int n, void* to, size_t stride) {
  Half* out = static_cast<Half*>(to);
  for (int i = 0; i < n; ++i) {
#if defined(__F16C__)
    out[i * stride].bits = uint16_t(_cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT));
#else
    out[i * stride].bits = to_half(x[i]);
#endif
  }
}

}  // namespace

#define TRITON_ADS_OPERATORS(NAME)                                                                        \
  {NAME, rms_norm, silu_multiply, add, log_sum_exp, {store_float16, store_float32}, {attend<Half>, attend<float>}}

}  // namespace triton_ads
