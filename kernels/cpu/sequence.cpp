#include "sequence.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "pool.h"
#include "require.h"

namespace triton_ads {
namespace {

std::string text(int64_t number) { return std::to_string(number); }

}  // namespace

Sequence::Sequence(const Decoder& decoder, const SequenceOptions& options)
    : decoder_(decoder),
      options_(options),
      cache_({int(decoder.parts().layers.size()), decoder.shape().kv_heads, (decoder.shape().head_dim + 15) / 16 * 16,
              options.prompt_capacity, options.node_capacity, options.cache}),
      half_(size_t(decoder.shape().head_dim) / 2) {
  options_.product.threads = std::min(options.product.threads, usable_cores());
  parent_.reserve(options.node_capacity);
  depth_.reserve(options.node_capacity);
  const int positions =
      int(std::min<int64_t>(decoder.shape().positions, int64_t(options.prompt_capacity) + options.node_capacity));
  cosine_.resize(size_t(positions) * half_);
  sine_.resize(cosine_.size());
  for (int position = 0; position < positions; ++position) {
    for (size_t i = 0; i < half_; ++i) {
      // The angle is rounded to float32, as the models' own code does and as they were trained.
      const float angle = float(position) * decoder.parts().inverse_frequencies[i];
      cosine_[position * half_ + i] = float(std::cos(double(angle)));
      sine_[position * half_ + i] = float(std::sin(double(angle)));
    }
  }
}

void Sequence::check_tokens(std::span<const int64_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= decoder_.shape().vocabulary)
      refuse("token " + text(int64_t(i)) + " is " + text(tokens[i]) + "; 0 to " +
             text(decoder_.shape().vocabulary - 1) + " allowed");
}

void Sequence::check_position(int64_t position) const {
  if (position >= decoder_.shape().positions)
    refuse("position " + text(position) + " is asked for; the model allows 0 to " +
           text(decoder_.shape().positions - 1));
}

void Sequence::check_prompt(std::span<const int64_t> tokens) const {
  require(parent_.empty(), "the tree has " + text(nodes()) + " nodes; the prompt grows only without nodes");
  check_tokens(tokens);
  const int64_t end = int64_t(length_) + int64_t(tokens.size());
  require(end <= options_.prompt_capacity, "the prompt would have " + text(end) + " tokens (" + text(length_) + " and " +
                                               text(int64_t(tokens.size())) + " more); there is room for " +
                                               text(options_.prompt_capacity));
  check_position(end - 1);
}

void Sequence::check_nodes(std::span<const int64_t> tokens, std::span<const int64_t> parents) const {
  require(tokens.size() == parents.size(), "there are " + text(int64_t(tokens.size())) + " tokens and " +
                                               text(int64_t(parents.size())) + " parents; one for each is needed");
  check_tokens(tokens);
  const int first = nodes();
  const int64_t end = first + int64_t(tokens.size());
  require(end <= options_.node_capacity, "the tree would have " + text(end) + " nodes (" + text(first) + " and " +
                                             text(int64_t(tokens.size())) + " more); there is room for " +
                                             text(options_.node_capacity));
  std::vector<int32_t> depth(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t parent = parents[i], own = first + int64_t(i);
    if (parent < -1 || parent >= own)
      refuse("node " + text(own) + " has parent " + text(parent) +
             "; -1 (the prompt's end) or an earlier node is allowed");
    depth[i] = parent < 0 ? 0 : (parent < first ? depth_[parent] : depth[parent - first]) + 1;
    check_position(int64_t(length_) + depth[i]);
  }
}

void Sequence::grow(std::span<const int64_t> parents) {
  for (const int64_t parent : parents) {
    parent_.push_back(int32_t(parent));  // room was reserved
    depth_.push_back(parent < 0 ? 0 : depth_[parent] + 1);
  }
}

void Sequence::clear_nodes() {
  const Hold hold(*this);
  parent_.clear();
  depth_.clear();
}

void Sequence::cut(int64_t length) {
  const Hold hold(*this);
  require(length >= 0 && length <= length_,
          "the prompt cannot be cut to " + text(length) + " tokens; it has " + text(length_));
  parent_.clear();
  depth_.clear();
  length_ = int(length);
}

Sequence::Hold::Hold(Sequence& sequence) : sequence_(sequence) {
  require(!sequence.busy_.test_and_set(std::memory_order_acquire),
          "another thread uses this sequence, or another part of this call; each needs its own");
}

Sequence::Hold::~Hold() { sequence_.busy_.clear(std::memory_order_release); }

}  // namespace triton_ads
