// A llama-family decoder over packed matrices: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
//
// A sequence is a prompt and a tree of nodes that grows from the prompt's end. `forward` takes more prompt tokens or
// any set of new nodes; a step of beam search and the verification of many continuations are the same call. A node
// sees the prompt, its ancestors and itself; its position is the prompt's length plus its depth.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "cache.h"
#include "matrix.h"
#include "product.h"

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

struct SequenceOptions {
  int prompt_capacity, node_capacity;
  CacheType cache = CacheType::kFloat16;
  ProductOptions product;
};

// Which scores a call answers with: for rows of the call (ascending), logits of the whole vocabulary, or of the
// candidates of each row, row by row. `normalised` turns logits into log-probabilities over the whole vocabulary.
struct Scores {
  std::span<const int64_t> rows;
  bool candidates;
  std::span<const int64_t> candidate_start;  // [rows + 1]
  std::span<const int64_t> candidate;        // tokens
  bool normalised;
  float* out;  // [rows][vocabulary] or [candidates]
};

class Sequence {
 public:
  Sequence(const Decoder& decoder, const SequenceOptions& options);

  int length() const { return length_; }
  int nodes() const { return int(parent_.size()); }
  size_t cache_bytes() const { return cache_.bytes(); }

  // Appends tokens to the prompt. Refused while the tree has nodes: their positions would be wrong.
  void extend(std::span<const int64_t> tokens, const Scores& scores);
  // Adds nodes to the tree. parents[i] is the number of an earlier node, of this call or before, or -1 for the
  // prompt's end; node numbers count from 0 in the order in which nodes are added.
  void grow(std::span<const int64_t> tokens, std::span<const int64_t> parents, const Scores& scores);
  // Removes all nodes. `cut` also shortens the prompt.
  void clear_nodes();
  void cut(int64_t length);

  // All of the above throw std::invalid_argument and change nothing where something does not fit, or while another
  // thread uses the sequence.

 private:
  struct Rows;  // the rows of one pass

  void check_tokens(std::span<const int64_t> tokens) const;
  void check_scores(const Scores& scores, size_t rows) const;
  void check_position(int64_t position) const;
  void pass(const Rows& rows);
  void attention_block(const Rows& rows, const Layer& layer, int number);
  void rotate_and_store(const Rows& rows, int layer, int row);
  size_t score(const Scores& scores, size_t first, size_t start, size_t count);
  void score_vocabulary(const Scores& scores, size_t first, size_t last);
  void score_candidates(const Scores& scores, size_t first, size_t last);
  void multiply_rows(std::span<const Product> products, const float* x, int rows) const;
  template <typename F>
  void share_out(int items, size_t work, const F& f) const;

  const Decoder& decoder_;
  const Operators& operators_;
  SequenceOptions options_;
  int dim_;  // head width in the cache
  Cache cache_;
  std::mutex busy_;

  int length_ = 0;
  std::vector<int32_t> parent_, depth_;
  std::vector<float> cosine_, sine_;  // [positions][head_dim / 2]

  // Buffers of one pass, allocated once.
  std::vector<float> x_, normed_, q_, k_, v_, query_, attended_, added_, gate_, up_, logits_;
  std::vector<int32_t> seen_, path_start_, path_;
  std::vector<int> tiles_;
  // Scratch of attention, one stretch for each thread that may run at the same time.
  std::vector<float> scratch_;
  size_t scratch_stride_ = 0;
};

}  // namespace triton_ads
