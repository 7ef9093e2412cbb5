#include "forward.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <list>
#include <string>
#include <vector>

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

float from_bf16(uint16_t high) {
  const uint32_t bits = uint32_t(high) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Rows of a pass that belong to one part.
struct Stretch {
  const Part* part;
  int first, last;  // rows
  int key;          // number of the first row's key, among the prompt's or the nodes'
};

// Rows of a stretch that share keys and values.
struct Block {
  const Stretch* stretch;
  int first, last;
};

// Memory of one calling thread: it grows to what its decoders need, and is kept.
struct Workspace {
  std::vector<float> x, normed, added, q, k, v, query, attended, gate, up, logits;
  std::vector<float> scores;  // of attention, one stretch for each thread that may run at the same time
  std::vector<int64_t> token;
  std::vector<int32_t> position, seen, path_start, path;
  std::vector<Stretch> stretches;
  std::vector<Block> blocks;
  std::vector<int> tiles;
};

template <typename T>
void reserve(std::vector<T>& buffer, size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

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

// The passes of one call. The parts' sequences share one decoder and one set of options.
class Forward {
 public:
  Forward(std::span<const Part> parts, const Scores& scores, Workspace& work);
  void run();

 private:
  void collect(size_t* part, size_t* token);
  void pass();
  void attention_block(const Layer& layer, int number);
  void rotate_and_store(const Stretch& stretch, int layer, int row);
  void score(size_t start);
  void score_vocabulary(size_t first, size_t last);
  void score_candidates(size_t first, size_t last);
  void multiply_rows(std::span<const Product> products, const float* x, int rows) const {
    multiply(products, x, rows, options_);
  }
  template <typename F>
  void share_out(int items, size_t work, const F& f) const;

  std::span<const Part> parts_;
  const Scores& scores_;
  Workspace& work_;
  const Decoder& decoder_;
  ProductOptions options_;
  CacheType cache_;
  int dim_;  // head width in the cache
  const Operators& operators_;
  int rows_ = 0;       // of this pass
  size_t scored_ = 0;  // scores that are answered
};

Forward::Forward(std::span<const Part> parts, const Scores& scores, Workspace& work)
    : parts_(parts),
      scores_(scores),
      work_(work),
      decoder_(parts.front().sequence->decoder()),
      options_(parts.front().sequence->options().product),
      cache_(parts.front().sequence->options().cache),
      dim_(parts.front().sequence->cache().shape().dim),
      operators_(operators_of(options_.path->name)) {
  options_.threads = std::min(options_.threads, kMaxThreads);
  const DecoderShape& shape = decoder_.shape();
  int inner = 0;
  for (const Layer& layer : decoder_.parts().layers) inner = std::max(inner, layer.gate->rows());
  const size_t queries = size_t(shape.heads) * shape.head_dim, keys = size_t(shape.kv_heads) * shape.head_dim;
  for (std::vector<float>* buffer : {&work.x, &work.normed, &work.added})
    reserve(*buffer, size_t(kPassRows) * shape.hidden);
  for (std::vector<float>* buffer : {&work.q, &work.attended}) reserve(*buffer, kPassRows * queries);
  for (std::vector<float>* buffer : {&work.k, &work.v}) reserve(*buffer, kPassRows * keys);
  reserve(work.query, size_t(kPassRows) * shape.heads * dim_);
  for (std::vector<float>* buffer : {&work.gate, &work.up}) reserve(*buffer, size_t(kPassRows) * inner);
  if (scores.candidates) reserve(work.logits, size_t(kScoredRows) * shape.vocabulary);
  for (std::vector<int32_t>* buffer : {&work.position, &work.seen}) reserve(*buffer, kPassRows);
  reserve(work.path_start, kPassRows + 1);
  reserve(work.token, kPassRows);
}

void Forward::run() {
  size_t part = 0, token = 0, start = 0;
  while (part < parts_.size()) {
    collect(&part, &token);
    if (rows_ == 0) continue;
    pass();
    score(start);
    start += rows_;
  }
}

// The rows of the next pass: as many tokens as there is room for, from one part after the other.
void Forward::collect(size_t* part, size_t* token) {
  rows_ = 0;
  work_.stretches.clear();
  work_.blocks.clear();
  work_.path.clear();
  work_.path_start[0] = 0;
  while (*part < parts_.size() && rows_ < kPassRows) {
    const Part& of = parts_[*part];
    const Sequence& sequence = *of.sequence;
    const int count = int(std::min(of.tokens.size() - *token, size_t(kPassRows - rows_)));
    const int before = sequence.nodes() - int(of.tokens.size());  // nodes of earlier calls
    const int key = (of.nodes ? before : sequence.length()) + int(*token);
    for (int i = 0; i < count; ++i) {
      const int row = rows_ + i;
      work_.token[row] = of.tokens[*token + i];
      if (of.nodes) {
        work_.position[row] = sequence.length() + sequence.depth(key + i);
        work_.seen[row] = sequence.length();
        for (int node = key + i; node >= 0; node = sequence.parent(node)) work_.path.push_back(node);
      } else {
        work_.position[row] = key + i;
        work_.seen[row] = key + i + 1;
      }
      work_.path_start[row + 1] = int32_t(work_.path.size());
    }
    if (count > 0) work_.stretches.push_back({&of, rows_, rows_ + count, key});
    rows_ += count;
    *token += count;
    if (*token == of.tokens.size()) {
      ++*part;
      *token = 0;
    }
  }
  // As many rows as fill a batch of queries, twice over.
  const int block = std::max(1, 2 * kQueryBatch / (decoder_.shape().heads / decoder_.shape().kv_heads));
  for (const Stretch& stretch : work_.stretches)
    for (int first = stretch.first; first < stretch.last; first += block)
      work_.blocks.push_back({&stretch, first, std::min(stretch.last, first + block)});
}

template <typename F>
void Forward::share_out(int items, size_t work, const F& f) const {
  const int threads = work < kAloneWork ? 1 : options_.threads;
  Pool::shared().run(
      items, threads,
      [](void* context, int first, int last) { (*static_cast<const F*>(context))(first, last); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

// Leaves the rows' last hidden states, normed, in `normed`.
void Forward::pass() {
  const DecoderParts& parts = decoder_.parts();
  const int hidden = parts.shape.hidden;
  float *x = work_.x.data(), *normed = work_.normed.data(), *added = work_.added.data();
  const auto norm = [&](const float* weight) {
    share_out(rows_, size_t(rows_) * hidden, [&](int first, int last) {
      for (int i = first; i < last; ++i)
        operators_.rms_norm(x + size_t(i) * hidden, weight, hidden, parts.shape.epsilon, normed + size_t(i) * hidden);
    });
  };
  for (int i = 0; i < rows_; ++i) {
    const uint16_t* embedding = parts.embeddings + size_t(work_.token[i]) * hidden;
    for (int d = 0; d < hidden; ++d) x[size_t(i) * hidden + d] = from_bf16(embedding[d]);
  }
  for (size_t number = 0; number < parts.layers.size(); ++number) {
    const Layer& layer = parts.layers[number];
    norm(layer.attention_norm);
    attention_block(layer, int(number));
    operators_.add(x, added, size_t(rows_) * hidden);
    norm(layer.mlp_norm);
    float *gate = work_.gate.data(), *up = work_.up.data();
    const Product both[] = {{layer.gate, gate}, {layer.up, up}};
    multiply_rows(both, normed, rows_);
    const size_t inner = size_t(layer.gate->rows());
    share_out(rows_, 8 * size_t(rows_) * inner, [&](int first, int last) {
      operators_.silu_multiply(gate + first * inner, up + first * inner, (last - first) * inner);
    });
    const Product down[] = {{layer.down, added}};
    multiply_rows(down, gate, rows_);
    operators_.add(x, added, size_t(rows_) * hidden);
  }
  norm(parts.final_norm);
}

// From `normed` to `added`.
void Forward::attention_block(const Layer& layer, int number) {
  const DecoderShape& shape = decoder_.shape();
  const int group = shape.heads / shape.kv_heads;
  const Product three[] = {{layer.q, work_.q.data()}, {layer.k, work_.k.data()}, {layer.v, work_.v.data()}};
  multiply_rows(three, work_.normed.data(), rows_);
  for (const Stretch& stretch : work_.stretches) {
    const int count = stretch.last - stretch.first;
    share_out(count, 4 * size_t(count) * shape.heads * dim_, [&](int first, int last) {
      for (int row = first; row < last; ++row) rotate_and_store(stretch, number, stretch.first + row);
    });
  }

  int seen = 0, longest = 0;
  for (int row = 0; row < rows_; ++row) {
    seen = std::max(seen, work_.seen[row]);
    longest = std::max(longest, work_.path_start[row + 1] - work_.path_start[row]);
  }
  // An odd number of lines, so that the rows of a batch do not fall into the same sets of the cache.
  const size_t stride = (scores_row(size_t(seen), size_t(longest)) / 16 | 1) * 16;
  reserve(work_.scores, stride * kQueryBatch * options_.threads);
  Slots free(options_.threads);
  const size_t work = size_t(rows_) * shape.heads * dim_ * size_t(seen + longest) * 2;
  share_out(int(work_.blocks.size()) * shape.kv_heads, work, [&](int first, int last) {
    const int slot = free.take();
    float* scores = work_.scores.data() + size_t(slot) * stride * kQueryBatch;
    for (int item = first; item < last; ++item) {
      const int head = item % shape.kv_heads;
      const Block& block = work_.blocks[item / shape.kv_heads];
      const Cache& cache = block.stretch->part->sequence->cache();
      const Attention attention{
          dim_,
          shape.head_dim,
          group,
          cache.prompt_key(number, head, 0).at,
          cache.prompt_value(number, head, 0).at,
          cache.node_key(number, head, 0).at,
          cache.node_value(number, head, 0).at,
          work_.query.data() + size_t(head) * group * dim_,
          size_t(shape.heads) * dim_,
          work_.attended.data() + size_t(head) * group * shape.head_dim,
          size_t(shape.heads) * shape.head_dim,
          work_.seen.data(),
          work_.path_start.data(),
          work_.path.data(),
      };
      operators_.attend[int(cache_)](attention, block.first, block.last, scores, stride);
    }
    free.give(slot);
  });
  const Product out[] = {{layer.o, work_.added.data()}};
  multiply_rows(out, work_.attended.data(), rows_);
}

// Rotary positions as Hugging Face's llama has them: element i turns with element i + half.
void Forward::rotate_and_store(const Stretch& stretch, int layer, int row) {
  const DecoderShape& shape = decoder_.shape();
  const Sequence& sequence = *stretch.part->sequence;
  const int half = shape.head_dim / 2;
  const float *cosine = sequence.cosine(work_.position[row]), *sine = sequence.sine(work_.position[row]);
  const float scale = 1.0f / std::sqrt(float(shape.head_dim));
  const auto rotate = [&](const float* from, float factor, float* to) {
    for (int i = 0; i < half; ++i) {
      to[i] = (from[i] * cosine[i] - from[i + half] * sine[i]) * factor;
      to[i + half] = (from[i + half] * cosine[i] + from[i] * sine[i]) * factor;
    }
    for (int i = 2 * half; i < dim_; ++i) to[i] = 0.0f;
  };
  for (int head = 0; head < shape.heads; ++head)
    rotate(work_.q.data() + (size_t(row) * shape.heads + head) * shape.head_dim, scale,
           work_.query.data() + (size_t(row) * shape.heads + head) * dim_);
  const auto keep = operators_.store[int(cache_)];
  const bool nodes = stretch.part->nodes;
  const int index = stretch.key + row - stretch.first;
  for (int head = 0; head < shape.kv_heads; ++head) {
    const size_t at = (size_t(row) * shape.kv_heads + head) * shape.head_dim;
    float key[kMaxHeadDim], value[kMaxHeadDim] = {};
    rotate(work_.k.data() + at, 1.0f, key);
    std::memcpy(value, work_.v.data() + at, shape.head_dim * sizeof(float));
    const Cache& cache = sequence.cache();
    const Cache::Place to_key = nodes ? cache.node_key(layer, head, index) : cache.prompt_key(layer, head, index);
    const Cache::Place to_value = nodes ? cache.node_value(layer, head, index) : cache.prompt_value(layer, head, index);
    keep(key, dim_, to_key.at, to_key.stride);
    keep(value, dim_, to_value.at, to_value.stride);
  }
}

// Answers the scores whose rows are in this pass, which began with row `start` of the call.
void Forward::score(size_t start) {
  const size_t hidden = size_t(decoder_.shape().hidden), first = scored_;
  // Together at the front: rows ascend, so nothing is overwritten before it is moved.
  for (; scored_ < scores_.rows.size() && size_t(scores_.rows[scored_]) < start + rows_; ++scored_)
    std::memmove(work_.normed.data() + (scored_ - first) * hidden,
                 work_.normed.data() + (size_t(scores_.rows[scored_]) - start) * hidden, hidden * sizeof(float));
  if (scored_ == first) return;
  if (scores_.candidates) {
    score_candidates(first, scored_);
  } else {
    score_vocabulary(first, scored_);
  }
}

void Forward::score_vocabulary(size_t first, size_t last) {
  const int vocabulary = decoder_.shape().vocabulary;
  float* out = scores_.out + first * size_t(vocabulary);
  const Product head[] = {{decoder_.parts().head, out}};
  const int count = int(last - first);
  multiply_rows(head, work_.normed.data(), count);
  if (!scores_.normalised) return;
  share_out(count, 8 * size_t(count) * vocabulary, [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      float* row = out + size_t(i) * vocabulary;
      const float all = operators_.log_sum_exp(row, vocabulary);
      for (int token = 0; token < vocabulary; ++token) row[token] -= all;
    }
  });
}

void Forward::score_candidates(size_t first, size_t last) {
  const int hidden = decoder_.shape().hidden, vocabulary = decoder_.shape().vocabulary;
  std::vector<int>& tiles = work_.tiles;
  for (size_t start = first; start < last; start += kScoredRows) {
    const size_t end = std::min(last, start + kScoredRows);
    tiles.clear();
    if (!scores_.normalised) {
      for (int64_t c = scores_.candidate_start[start]; c < scores_.candidate_start[end]; ++c)
        tiles.push_back(decoder_.head_tile(int(scores_.candidate[c])));
      if (tiles.empty()) continue;
      std::sort(tiles.begin(), tiles.end());
      tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
    }
    const Product head[] = {{decoder_.parts().head, work_.logits.data(), tiles}};
    const int count = int(end - start);
    multiply_rows(head, work_.normed.data() + (start - first) * hidden, count);
    share_out(count, scores_.normalised ? 8 * size_t(count) * vocabulary : 0, [&](int from, int to) {
      for (int i = from; i < to; ++i) {
        const float* row = work_.logits.data() + size_t(i) * vocabulary;
        const float all = scores_.normalised ? operators_.log_sum_exp(row, vocabulary) : 0.0f;
        for (int64_t c = scores_.candidate_start[start + i]; c < scores_.candidate_start[start + i + 1]; ++c)
          scores_.out[c] = row[scores_.candidate[c]] - all;
      }
    });
  }
}

void check_scores(const Scores& scores, size_t rows, int vocabulary) {
  int64_t last = -1;
  for (const int64_t row : scores.rows) {
    if (row <= last || row >= int64_t(rows))
      refuse("scores are asked for row " + text(row) + " after row " + text(last) + "; ascending rows below " +
             text(int64_t(rows)) + " are allowed");
    last = row;
  }
  if (!scores.candidates) return;
  require(scores.candidate_start.size() == scores.rows.size() + 1 && scores.candidate_start.front() == 0 &&
              scores.candidate_start.back() == int64_t(scores.candidate.size()),
          "candidate starts do not run from 0 to " + text(int64_t(scores.candidate.size())) + " in " +
              text(int64_t(scores.rows.size())) + " steps, one for each row");
  for (size_t i = 0; i < scores.rows.size(); ++i)
    if (scores.candidate_start[i] > scores.candidate_start[i + 1])
      refuse("candidate starts fall from " + text(scores.candidate_start[i]) + " to " +
             text(scores.candidate_start[i + 1]));
  for (const int64_t token : scores.candidate)
    if (token < 0 || token >= vocabulary)
      refuse("a candidate is token " + text(token) + "; 0 to " + text(vocabulary - 1) + " allowed");
}

void check_parts(std::span<const Part> parts) {
  const Sequence& first = *parts.front().sequence;
  for (const Part& part : parts) {
    require(&part.sequence->decoder() == &first.decoder(), "the sequences of a call are of two decoders; one is allowed");
    const SequenceOptions &options = part.sequence->options(), &others = first.options();
    require(options.cache == others.cache && options.product.arithmetic == others.product.arithmetic &&
                options.product.threads == others.product.threads && options.product.path == others.product.path,
            "the sequences of a call differ in cache, activation bits, threads or path; the same are needed");
    if (part.nodes) {
      part.sequence->check_nodes(part.tokens, part.parents);
    } else {
      part.sequence->check_prompt(part.tokens);
    }
  }
}

}  // namespace

void forward(std::span<const Part> parts, const Scores& scores) {
  static thread_local Workspace workspace;
  require(!parts.empty(), "a call has 0 parts; at least 1 is needed");
  std::list<Sequence::Hold> held;  // a list, since a Hold does not move
  for (const Part& part : parts) held.emplace_back(*part.sequence);
  check_parts(parts);
  size_t rows = 0;
  for (const Part& part : parts) rows += part.tokens.size();
  check_scores(scores, rows, parts.front().sequence->decoder().shape().vocabulary);
  Forward call(parts, scores, workspace);
  for (const Part& part : parts)
    if (part.nodes) part.sequence->grow(part.parents);
  call.run();
  for (const Part& part : parts)
    if (!part.nodes) part.sequence->extend(int(part.tokens.size()));
}

}  // namespace triton_ads
