// The operators of a decoder beside its products: norms, rotations, activations, attention. One table for each path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace triton_ads {

// How keys and values are stored: float16 halves what attention reads; float32 is there to compare with.
enum class CacheType : int { kFloat16 = 0, kFloat32 = 1 };

constexpr int kKeyBlock = 16;      // keys of the prompt that lie side by side
constexpr int kMaxHeadDim = 256;   // a multiple of 16
constexpr int kQueryBatch = 8;     // queries that share one reading of keys and values

// Attention of some rows within one key-value head. Every row sees the first `seen[row]` keys of the prompt and the
// nodes in its `path` (its ancestors and itself), under one softmax.
//
//   prompt_keys    [blocks][dim][16]   lane = key: a score needs no sum across lanes
//   prompt_values  [keys][dim]         lane = column
//   node_keys, node_values  [nodes][dim]: nodes are gathered, a few for each row
struct Attention {
  int dim;                  // width of a head in the cache: padded to a multiple of 16 with zeros
  int real_dim;             // width of a head in `out`
  int group;                // query heads that share this key-value head
  const void* prompt_keys;
  const void* prompt_values;
  const void* node_keys;
  const void* node_values;
  const float* q;           // row r, head g of the group: q + r q_row + g dim; rotated and scaled, padded with zeros
  size_t q_row;
  float* out;               // row r, head g: out + r out_row + g real_dim
  size_t out_row;
  const int32_t* seen;         // [rows]
  const int32_t* path_start;   // [rows + 1], into `path`
  const int32_t* path;
};

// Floats of scratch that `attend` needs when no row sees more prompt keys or has a longer path than this.
static constexpr size_t scores_row(size_t seen, size_t path) {
  return (seen + kKeyBlock - 1) / kKeyBlock * kKeyBlock + (path + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
}

struct Operators {
  const char* name;  // of the path
  // y[i] = x[i] * weight[i] / sqrt(mean of x^2 + epsilon)
  void (*rms_norm)(const float* x, const float* weight, int n, float epsilon, float* y);
  // gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i]
  void (*silu_multiply)(float* gate, const float* up, size_t n);
  void (*add)(float* x, const float* y, size_t n);
  // log of the sum of exp(x[i])
  float (*log_sum_exp)(const float* x, size_t n);
  // float32 to the cache's type, `n` values `stride` elements apart
  void (*store[2])(const float* x, int n, void* to, size_t stride);
  // Rows first to last - 1; `scores` has kQueryBatch rows of `stride` floats and is aligned to 64 bytes.
  void (*attend[2])(const Attention& a, int first, int last, float* scores, size_t stride);
};

// The operators of the path with this name; see choose_path.
const Operators& operators_of(const std::string& path);

extern const Operators kPortableOperators;
#ifdef TRITON_ADS_X86
extern const Operators kAvx2Operators;
extern const Operators kAvx512Operators;
#endif

}  // namespace triton_ads
