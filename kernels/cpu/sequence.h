// A prompt and a tree of nodes that grows from the prompt's end: their keys and values, and who descends from whom.
//
// A node sees the prompt, its ancestors and itself; its position is the prompt's length plus its depth. So the beams of
// a search, and all continuations that a verification tries, are nodes; nothing is ever moved. Tokens come in by a
// forward pass (forward.h), of one sequence or of several.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "cache.h"
#include "decoder.h"
#include "product.h"

namespace triton_ads {

struct SequenceOptions {
  int prompt_capacity, node_capacity;
  CacheType cache = CacheType::kFloat16;
  ProductOptions product;
};

class Sequence {
 public:
  Sequence(const Decoder& decoder, const SequenceOptions& options);

  const Decoder& decoder() const { return decoder_; }
  const SequenceOptions& options() const { return options_; }
  const Cache& cache() const { return cache_; }
  int length() const { return length_; }
  int nodes() const { return int(parent_.size()); }
  int parent(int node) const { return parent_[node]; }  // -1: the prompt's end
  int depth(int node) const { return depth_[node]; }
  // Rotary angles of a position: [head_dim / 2] each.
  const float* cosine(int position) const { return cosine_.data() + size_t(position) * half_; }
  const float* sine(int position) const { return sine_.data() + size_t(position) * half_; }

  // Throw std::invalid_argument where these tokens cannot be appended to the prompt, or added as nodes: parents[i] is
  // the number of an earlier node, of these or before, or -1 for the prompt's end. Node numbers count from 0 in the
  // order in which nodes are added.
  void check_prompt(std::span<const int64_t> tokens) const;
  void check_nodes(std::span<const int64_t> tokens, std::span<const int64_t> parents) const;
  // Count what a forward brings in; checked before.
  void extend(int tokens) { length_ += tokens; }
  void grow(std::span<const int64_t> parents);

  // Removes all nodes. `cut` also shortens the prompt. Both throw std::invalid_argument and change nothing where
  // something does not fit, or while the sequence is in use.
  void clear_nodes();
  void cut(int64_t length);

  // Holds a sequence for one user at a time; throws std::invalid_argument while there is another.
  class Hold {
   public:
    explicit Hold(Sequence& sequence);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Sequence& sequence_;
  };

 private:
  void check_tokens(std::span<const int64_t> tokens) const;
  void check_position(int64_t position) const;

  const Decoder& decoder_;
  SequenceOptions options_;
  Cache cache_;
  std::atomic_flag busy_ = {};

  int length_ = 0;
  std::vector<int32_t> parent_, depth_;
  size_t half_;
  std::vector<float> cosine_, sine_;  // [positions][half]
};

}  // namespace triton_ads
