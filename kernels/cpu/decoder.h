// The weights of a llama-family decoder over packed matrices: RMSNorm, rotary positions, grouped-query attention,
// SwiGLU. Any number of sequences (sequence.h) share them; forward.h runs tokens through them.
#pragma once

#include <cstdint>
#include <vector>

#include "matrix.h"

namespace triton_ads {

struct DecoderShape {
  int hidden, heads, kv_heads, head_dim, vocabulary;
  int positions;  // most positions of a token: what the model was made for
  float epsilon;  // of RMSNorm
};

struct Layer {
  const Matrix *q, *k, *v, *o, *gate, *up, *down;
  const float *attention_norm, *mlp_norm;  // [hidden]
};

// Views of memory that the owner keeps alive.
struct DecoderParts {
  DecoderShape shape;
  std::vector<Layer> layers;
  const uint16_t* embeddings;  // BF16 [vocabulary][hidden]
  const float* final_norm;     // [hidden]
  const Matrix* head;
  const float* inverse_frequencies;  // [head_dim / 2], radians a position
};

class Decoder {
 public:
  // Throws std::invalid_argument where the parts do not fit together.
  explicit Decoder(DecoderParts parts);

  const DecoderParts& parts() const { return parts_; }
  const DecoderShape& shape() const { return parts_.shape; }
  // The tile of the head that holds a token.
  int head_tile(int token) const { return head_tile_.empty() ? token / kTileRows : head_tile_[token]; }

 private:
  DecoderParts parts_;
  std::vector<int32_t> head_tile_;  // only where the head's rows are sorted
};

}  // namespace triton_ads
