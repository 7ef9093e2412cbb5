#include "decoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "pool.h"
#include "require.h"

namespace triton_ads {
namespace {

// Rows of a pass through the layers: as many as a product quantises at once.
constexpr int kPassRows = 32;
// Rows whose logits are in memory at once where candidates are scored.
constexpr int kScoredRows = 8;
// Below this many multiplications sharing out costs more than it brings.
constexpr size_t kAloneWork = 1 << 16;
constexpr int kMaxThreads = 64;

std::string text(int64_t number) { return std::to_string(number); }

void require_shape(const Matrix* matrix, const std::string& name, int rows, int columns) {
  require(matrix->rows() == rows && matrix->columns() == columns,
          name + " is " + text(matrix->rows()) + " x " + text(matrix->columns()) + "; this model needs " + text(rows) +
              " x " + text(columns));
}

float from_bf16(uint16_t high) {
  const uint32_t bits = uint32_t(high) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

}  // namespace

Decoder::Decoder(DecoderParts parts) : parts_(std::move(parts)) {
  const DecoderShape& shape = parts_.shape;
  const auto in_range = [](const std::string& name, int value, int low, int high) {
    require(value >= low && value <= high,
            name + " is " + text(value) + "; " + text(low) + " to " + text(high) + " allowed");
  };
  in_range("hidden", shape.hidden, 1, 1 << 20);
  in_range("heads", shape.heads, 1, 1 << 12);
  in_range("kv_heads", shape.kv_heads, 1, shape.heads);
  in_range("head_dim", shape.head_dim, 2, kMaxHeadDim);
  in_range("vocabulary", shape.vocabulary, 1, 1 << 24);
  in_range("positions", shape.positions, 1, 1 << 24);
  require(shape.heads % shape.kv_heads == 0, "heads is " + text(shape.heads) + ", kv_heads " + text(shape.kv_heads) +
                                                 "; the first must be a multiple of the second");
  require(shape.head_dim % 2 == 0, "head_dim is " + text(shape.head_dim) + "; an even number is needed");
  require(!parts_.layers.empty(), "there are 0 layers; at least 1 is needed");
  const int queries = shape.heads * shape.head_dim, keys = shape.kv_heads * shape.head_dim;
  for (size_t i = 0; i < parts_.layers.size(); ++i) {
    const Layer& layer = parts_.layers[i];
    const std::string of = "layer " + text(int64_t(i)) + ": ";
    require_shape(layer.q, of + "q", queries, shape.hidden);
    require_shape(layer.k, of + "k", keys, shape.hidden);
    require_shape(layer.v, of + "v", keys, shape.hidden);
    require_shape(layer.o, of + "o", shape.hidden, queries);
    require_shape(layer.gate, of + "gate", layer.down->columns(), shape.hidden);
    require_shape(layer.up, of + "up", layer.down->columns(), shape.hidden);
    require_shape(layer.down, of + "down", shape.hidden, layer.gate->rows());
  }
  require_shape(parts_.head, "head", shape.vocabulary, shape.hidden);
  if (parts_.head->order(0)) {
    head_tile_.resize(shape.vocabulary);
    for (int tile = 0; tile < parts_.head->tiles(); ++tile)
      for (int row = 0; row < kTileRows; ++row)
        if (const int32_t token = parts_.head->order(tile)[row]; token >= 0) head_tile_[token] = tile;
  }
}

// The rows of one pass and where their keys and values go.
struct Sequence::Rows {
  std::span<const int64_t> tokens;
  bool nodes;        // into the tree, else into the prompt
  int first;         // number of the first key
  const int32_t* depth;  // of nodes
};

namespace {

// Hands out stretches of scratch. A pool never runs more pieces at a time than threads were asked for, so one is free.
class Slots {
 public:
  explicit Slots(int count) : count_(count) {}
  int take() {
    for (int slot = 0;; slot = (slot + 1) % count_)
      if (!taken_[slot].test_and_set(std::memory_order_acquire)) return slot;
  }
  void give(int slot) { taken_[slot].clear(std::memory_order_release); }

 private:
  int count_;
  std::atomic_flag taken_[kMaxThreads] = {};
};

}  // namespace

Sequence::Sequence(const Decoder& decoder, const SequenceOptions& options)
    : decoder_(decoder),
      operators_(operators_of(options.product.path->name)),
      options_(options),
      dim_((decoder.shape().head_dim + 15) / 16 * 16),
      cache_({int(decoder.parts().layers.size()), decoder.shape().kv_heads, dim_, options.prompt_capacity,
              options.node_capacity, options.cache}) {
  options_.product.threads = std::min({options.product.threads, usable_cores(), kMaxThreads});
  const DecoderShape& shape = decoder.shape();
  int inner = 0;
  for (const Layer& layer : decoder.parts().layers) inner = std::max(inner, layer.gate->rows());
  const size_t queries = size_t(shape.heads) * shape.head_dim, keys = size_t(shape.kv_heads) * shape.head_dim;
  x_.resize(size_t(kPassRows) * shape.hidden);
  normed_.resize(x_.size());
  added_.resize(x_.size());
  q_.resize(kPassRows * queries);
  attended_.resize(q_.size());
  k_.resize(kPassRows * keys);
  v_.resize(k_.size());
  query_.resize(size_t(kPassRows) * shape.heads * dim_);
  gate_.resize(size_t(kPassRows) * inner);
  up_.resize(gate_.size());
  parent_.reserve(options.node_capacity);
  depth_.reserve(options.node_capacity);
  seen_.resize(kPassRows);
  path_start_.resize(kPassRows + 1);
  logits_.resize(size_t(kScoredRows) * shape.vocabulary);
  scratch_stride_ = (scores_row(options.prompt_capacity, options.node_capacity) / 16 | 1) * 16 * kQueryBatch;
  scratch_.resize(scratch_stride_ * options_.product.threads);

  const int positions = int(std::min<int64_t>(shape.positions, int64_t(options.prompt_capacity) + options.node_capacity));
  const int half = shape.head_dim / 2;
  cosine_.resize(size_t(positions) * half);
  sine_.resize(cosine_.size());
  for (int position = 0; position < positions; ++position) {
    for (int i = 0; i < half; ++i) {
      // The angle is rounded to float32, as the models' own code does and as they were trained.
      const float angle = float(position) * decoder.parts().inverse_frequencies[i];
      cosine_[size_t(position) * half + i] = float(std::cos(double(angle)));
      sine_[size_t(position) * half + i] = float(std::sin(double(angle)));
    }
  }
}

void Sequence::check_tokens(std::span<const int64_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i)
    require(tokens[i] >= 0 && tokens[i] < decoder_.shape().vocabulary,
            "token " + text(int64_t(i)) + " is " + text(tokens[i]) + "; 0 to " + text(decoder_.shape().vocabulary - 1) +
                " allowed");
}

void Sequence::check_scores(const Scores& scores, size_t rows) const {
  int64_t last = -1;
  for (const int64_t row : scores.rows) {
    require(row > last && row < int64_t(rows), "scores are asked for row " + text(row) + " after row " + text(last) +
                                                   "; ascending rows below " + text(int64_t(rows)) + " are allowed");
    last = row;
  }
  if (!scores.candidates) return;
  require(scores.candidate_start.size() == scores.rows.size() + 1 && scores.candidate_start.front() == 0 &&
              scores.candidate_start.back() == int64_t(scores.candidate.size()),
          "candidate starts do not run from 0 to " + text(int64_t(scores.candidate.size())) + " in " +
              text(int64_t(scores.rows.size())) + " steps, one for each row");
  for (size_t i = 0; i < scores.rows.size(); ++i)
    require(scores.candidate_start[i] <= scores.candidate_start[i + 1],
            "candidate starts fall from " + text(scores.candidate_start[i]) + " to " +
                text(scores.candidate_start[i + 1]));
  for (const int64_t token : scores.candidate)
    require(token >= 0 && token < decoder_.shape().vocabulary,
            "a candidate is token " + text(token) + "; 0 to " + text(decoder_.shape().vocabulary - 1) + " allowed");
}

void Sequence::check_position(int64_t position) const {
  require(position < decoder_.shape().positions, "position " + text(position) + " is asked for; the model allows 0 to " +
                                                     text(decoder_.shape().positions - 1));
}

namespace {

// Holds a sequence for one thread.
class Hold {
 public:
  explicit Hold(std::mutex& busy) : lock_(busy, std::try_to_lock) {
    require(lock_.owns_lock(), "another thread uses this sequence; each thread needs its own");
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace

void Sequence::extend(std::span<const int64_t> tokens, const Scores& scores) {
  const Hold hold(busy_);
  require(parent_.empty(), "the tree has " + text(nodes()) + " nodes; the prompt grows only without nodes");
  check_tokens(tokens);
  check_scores(scores, tokens.size());
  const int64_t end = int64_t(length_) + int64_t(tokens.size());
  require(end <= options_.prompt_capacity, "the prompt would have " + text(end) + " tokens (" + text(length_) + " and " +
                                               text(int64_t(tokens.size())) + " more); there is room for " +
                                               text(options_.prompt_capacity));
  check_position(end - 1);
  size_t scored = 0;
  for (size_t start = 0; start < tokens.size(); start += kPassRows) {
    const size_t count = std::min(tokens.size() - start, size_t(kPassRows));
    for (size_t i = 0; i <= count; ++i) path_start_[i] = 0;
    for (size_t i = 0; i < count; ++i) seen_[i] = length_ + int(start + i) + 1;
    pass({tokens.subspan(start, count), false, length_ + int(start), nullptr});
    scored = score(scores, scored, start, count);
  }
  length_ = int(end);
}

void Sequence::grow(std::span<const int64_t> tokens, std::span<const int64_t> parents, const Scores& scores) {
  const Hold hold(busy_);
  require(tokens.size() == parents.size(), "there are " + text(int64_t(tokens.size())) + " tokens and " +
                                               text(int64_t(parents.size())) + " parents; one for each is needed");
  check_tokens(tokens);
  check_scores(scores, tokens.size());
  const int first = nodes();
  const int64_t end = first + int64_t(tokens.size());
  require(end <= options_.node_capacity, "the tree would have " + text(end) + " nodes (" + text(first) + " and " +
                                             text(int64_t(tokens.size())) + " more); there is room for " +
                                             text(options_.node_capacity));
  // Checked before anything is changed: depths of this call are collected apart.
  std::vector<int32_t> depth(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const int64_t parent = parents[i], own = first + int64_t(i);
    require(parent >= -1 && parent < own, "node " + text(own) + " has parent " + text(parent) +
                                              "; -1 (the prompt's end) or an earlier node is allowed");
    depth[i] = parent < 0 ? 0 : (parent < first ? depth_[parent] : depth[parent - first]) + 1;
    check_position(int64_t(length_) + depth[i]);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    parent_.push_back(int32_t(parents[i]));  // room was reserved
    depth_.push_back(depth[i]);
  }
  size_t scored = 0;
  for (size_t start = 0; start < tokens.size(); start += kPassRows) {
    const size_t count = std::min(tokens.size() - start, size_t(kPassRows));
    path_.clear();
    for (size_t i = 0; i < count; ++i) {
      path_start_[i] = int32_t(path_.size());
      seen_[i] = length_;
      for (int32_t node = first + int32_t(start + i); node >= 0; node = parent_[node]) path_.push_back(node);
    }
    path_start_[count] = int32_t(path_.size());
    pass({tokens.subspan(start, count), true, first + int(start), depth_.data() + first + start});
    scored = score(scores, scored, start, count);
  }
}

void Sequence::clear_nodes() {
  const Hold hold(busy_);
  parent_.clear();
  depth_.clear();
}

void Sequence::cut(int64_t length) {
  const Hold hold(busy_);
  require(length >= 0 && length <= length_,
          "the prompt cannot be cut to " + text(length) + " tokens; it has " + text(length_));
  parent_.clear();
  depth_.clear();
  length_ = int(length);
}

template <typename F>
void Sequence::share_out(int items, size_t work, const F& f) const {
  const int threads = work < kAloneWork ? 1 : options_.product.threads;
  Pool::shared().run(
      items, threads,
      [](void* context, int first, int last) { (*static_cast<const F*>(context))(first, last); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

void Sequence::multiply_rows(std::span<const Product> products, const float* x, int rows) const {
  multiply(products, x, rows, options_.product);
}

// Leaves the rows' last hidden states, normed, in `normed_`.
void Sequence::pass(const Rows& rows) {
  const DecoderParts& parts = decoder_.parts();
  const int count = int(rows.tokens.size()), hidden = parts.shape.hidden;
  const auto norm = [&](const float* weight) {
    share_out(count, size_t(count) * hidden, [&](int first, int last) {
      for (int i = first; i < last; ++i)
        operators_.rms_norm(x_.data() + size_t(i) * hidden, weight, hidden, parts.shape.epsilon,
                            normed_.data() + size_t(i) * hidden);
    });
  };
  for (int i = 0; i < count; ++i) {
    const uint16_t* embedding = parts.embeddings + size_t(rows.tokens[i]) * hidden;
    for (int d = 0; d < hidden; ++d) x_[size_t(i) * hidden + d] = from_bf16(embedding[d]);
  }
  for (size_t number = 0; number < parts.layers.size(); ++number) {
    const Layer& layer = parts.layers[number];
    norm(layer.attention_norm);
    attention_block(rows, layer, int(number));
    operators_.add(x_.data(), added_.data(), size_t(count) * hidden);
    norm(layer.mlp_norm);
    const Product both[] = {{layer.gate, gate_.data()}, {layer.up, up_.data()}};
    multiply_rows(both, normed_.data(), count);
    const size_t inner = size_t(layer.gate->rows());
    share_out(count, 8 * size_t(count) * inner, [&](int first, int last) {
      operators_.silu_multiply(gate_.data() + first * inner, up_.data() + first * inner, (last - first) * inner);
    });
    const Product down[] = {{layer.down, added_.data()}};
    multiply_rows(down, gate_.data(), count);
    operators_.add(x_.data(), added_.data(), size_t(count) * hidden);
  }
  norm(parts.final_norm);
}

// From `normed_` to `added_`.
void Sequence::attention_block(const Rows& rows, const Layer& layer, int number) {
  const DecoderShape& shape = decoder_.shape();
  const int count = int(rows.tokens.size()), group = shape.heads / shape.kv_heads;
  const Product three[] = {{layer.q, q_.data()}, {layer.k, k_.data()}, {layer.v, v_.data()}};
  multiply_rows(three, normed_.data(), count);
  share_out(count, 4 * size_t(count) * shape.heads * dim_, [&](int first, int last) {
    for (int row = first; row < last; ++row) rotate_and_store(rows, number, row);
  });

  int seen = 0, longest = 0;
  for (int row = 0; row < count; ++row) {
    seen = std::max(seen, seen_[row]);
    longest = std::max(longest, path_start_[row + 1] - path_start_[row]);
  }
  // An odd number of lines, so that the rows of a batch do not fall into the same sets of the cache.
  const size_t stride = (scores_row(size_t(seen), size_t(longest)) / 16 | 1) * 16;
  // Rows of a block share keys and values: as many as fill a batch of queries, twice over.
  const int block = std::max(1, 2 * kQueryBatch / group);
  const int blocks = (count + block - 1) / block;
  Slots free(options_.product.threads);
  const size_t work = size_t(count) * shape.heads * dim_ * size_t(seen + longest) * 2;
  share_out(blocks * shape.kv_heads, work, [&](int first, int last) {
    const int slot = free.take();
    float* scores = scratch_.data() + size_t(slot) * scratch_stride_;
    for (int item = first; item < last; ++item) {
      const int head = item % shape.kv_heads, start = item / shape.kv_heads * block;
      const Attention attention{
          dim_,
          shape.head_dim,
          group,
          cache_.prompt_key(number, head, 0).at,
          cache_.prompt_value(number, head, 0).at,
          cache_.node_key(number, head, 0).at,
          cache_.node_value(number, head, 0).at,
          query_.data() + size_t(head) * group * dim_,
          size_t(shape.heads) * dim_,
          attended_.data() + size_t(head) * group * shape.head_dim,
          size_t(shape.heads) * shape.head_dim,
          seen_.data(),
          path_start_.data(),
          path_.data(),
      };
      operators_.attend[int(options_.cache)](attention, start, std::min(count, start + block), scores, stride);
    }
    free.give(slot);
  });
  const Product out[] = {{layer.o, added_.data()}};
  multiply_rows(out, attended_.data(), count);
}

// Rotary positions as Hugging Face's llama has them: element i turns with element i + half.
void Sequence::rotate_and_store(const Rows& rows, int layer, int row) {
  const DecoderShape& shape = decoder_.shape();
  const int half = shape.head_dim / 2;
  const int position = rows.nodes ? length_ + rows.depth[row] : rows.first + row;
  const float* cosine = cosine_.data() + size_t(position) * half;
  const float* sine = sine_.data() + size_t(position) * half;
  const float scale = 1.0f / std::sqrt(float(shape.head_dim));
  const auto rotate = [&](const float* from, float factor, float* to) {
    for (int i = 0; i < half; ++i) {
      to[i] = (from[i] * cosine[i] - from[i + half] * sine[i]) * factor;
      to[i + half] = (from[i + half] * cosine[i] + from[i] * sine[i]) * factor;
    }
    for (int i = 2 * half; i < dim_; ++i) to[i] = 0.0f;
  };
  for (int head = 0; head < shape.heads; ++head)
    rotate(q_.data() + (size_t(row) * shape.heads + head) * shape.head_dim, scale,
           query_.data() + (size_t(row) * shape.heads + head) * dim_);
  const auto keep = operators_.store[int(options_.cache)];
  const int index = rows.first + row;
  for (int head = 0; head < shape.kv_heads; ++head) {
    const size_t at = (size_t(row) * shape.kv_heads + head) * shape.head_dim;
    float key[kMaxHeadDim], value[kMaxHeadDim] = {};
    rotate(k_.data() + at, 1.0f, key);
    std::memcpy(value, v_.data() + at, shape.head_dim * sizeof(float));
    const Cache::Place to_key =
        rows.nodes ? cache_.node_key(layer, head, index) : cache_.prompt_key(layer, head, index);
    const Cache::Place to_value =
        rows.nodes ? cache_.node_value(layer, head, index) : cache_.prompt_value(layer, head, index);
    keep(key, dim_, to_key.at, to_key.stride);
    keep(value, dim_, to_value.at, to_value.stride);
  }
}

// Answers the scores from number `first` on whose rows are among the `count` of the pass that began with row `start`;
// gives the number of the first score that is left.
size_t Sequence::score(const Scores& scores, size_t first, size_t start, size_t count) {
  const size_t hidden = size_t(decoder_.shape().hidden);
  size_t last = first;
  // Together at the front: rows ascend, so nothing is overwritten before it is moved.
  for (; last < scores.rows.size() && size_t(scores.rows[last]) < start + count; ++last)
    std::memmove(normed_.data() + (last - first) * hidden,
                 normed_.data() + (size_t(scores.rows[last]) - start) * hidden, hidden * sizeof(float));
  if (last == first) return last;
  if (scores.candidates) {
    score_candidates(scores, first, last);
  } else {
    score_vocabulary(scores, first, last);
  }
  return last;
}

void Sequence::score_vocabulary(const Scores& scores, size_t first, size_t last) {
  const int vocabulary = decoder_.shape().vocabulary;
  float* out = scores.out + first * size_t(vocabulary);
  const Product head[] = {{decoder_.parts().head, out}};
  const int count = int(last - first);
  multiply_rows(head, normed_.data(), count);
  if (!scores.normalised) return;
  share_out(count, 8 * size_t(count) * vocabulary, [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      float* row = out + size_t(i) * vocabulary;
      const float all = operators_.log_sum_exp(row, vocabulary);
      for (int token = 0; token < vocabulary; ++token) row[token] -= all;
    }
  });
}

void Sequence::score_candidates(const Scores& scores, size_t first, size_t last) {
  const int hidden = decoder_.shape().hidden, vocabulary = decoder_.shape().vocabulary;
  for (size_t start = first; start < last; start += kScoredRows) {
    const size_t end = std::min(last, start + kScoredRows);
    tiles_.clear();
    if (!scores.normalised) {
      for (int64_t c = scores.candidate_start[start]; c < scores.candidate_start[end]; ++c)
        tiles_.push_back(decoder_.head_tile(int(scores.candidate[c])));
      if (tiles_.empty()) continue;
      std::sort(tiles_.begin(), tiles_.end());
      tiles_.erase(std::unique(tiles_.begin(), tiles_.end()), tiles_.end());
    }
    const Product head[] = {{decoder_.parts().head, logits_.data(), tiles_}};
    const int count = int(end - start);
    multiply_rows(head, normed_.data() + (start - first) * hidden, count);
    share_out(count, scores.normalised ? 8 * size_t(count) * vocabulary : 0, [&](int from, int to) {
      for (int i = from; i < to; ++i) {
        const float* row = logits_.data() + size_t(i) * vocabulary;
        const float all = scores.normalised ? operators_.log_sum_exp(row, vocabulary) : 0.0f;
        for (int64_t c = scores.candidate_start[start + i]; c < scores.candidate_start[start + i + 1]; ++c)
          scores.out[c] = row[scores.candidate[c]] - all;
      }
    });
  }
}

}  // namespace triton_ads
