// Attention over a prompt and a path of nodes; see operators.h for the layout. Compiled into each path.
//
// Up to eight queries share each key and value: the heads of a group, and several rows. Scores of the prompt are made
// 16 keys at a time (lane = key), outputs column by column (lane = column), so only a node's score, of which a row has
// few, needs a sum across lanes.

#include <limits>

#include "lanes.inl"
#include "operators.h"

namespace triton_ads {
namespace {

// What belongs to one query of a batch.
struct Query {
  const float* q;
  float* scores;
  float* out;
  int seen, row;
};

// Scores of `blocks` blocks of keys, `Wide` at a time so that sums do not wait for each other.
template <typename T, int Count, int Wide>
TRITON_ADS_INLINE void score_blocks(const T* keys, int dim, const Query* query, int block) {
  for (int part = 0; part < kKeyBlock; part += kLanes) {
    Vec sum[Count][Wide];
    for (int i = 0; i < Count; ++i)
      for (int w = 0; w < Wide; ++w) sum[i][w] = Vec{};
    for (int d = 0; d < dim; ++d) {
      Vec key[Wide];
      for (int w = 0; w < Wide; ++w) key[w] = load(keys + (size_t(block + w) * dim + d) * kKeyBlock + part);
      for (int i = 0; i < Count; ++i) {
        const Vec q = splat(query[i].q[d]);
        for (int w = 0; w < Wide; ++w) sum[i][w] = multiply_add(q, key[w], sum[i][w]);
      }
    }
    for (int i = 0; i < Count; ++i)
      for (int w = 0; w < Wide; ++w) store(query[i].scores + (block + w) * kKeyBlock + part, sum[i][w]);
  }
}

template <typename T, int Count>
void score_prompt(const T* keys, int dim, const Query* query, int blocks) {
  constexpr int kWide = Count >= 8 ? 1 : Count >= 3 ? 2 : 4;
  int block = 0;
  for (; block + kWide <= blocks; block += kWide) score_blocks<T, Count, kWide>(keys, dim, query, block);
  for (; block < blocks; ++block) score_blocks<T, Count, 1>(keys, dim, query, block);
}

template <typename T>
float score_node(const T* key, const float* q, int dim) {
  Vec sum = Vec{};
  for (int d = 0; d < dim; d += kLanes) sum = multiply_add(load(q + d), load(key + d), sum);
  return sum_of(sum);
}

// exp(score - largest) in place over [0, n), a multiple of 16, and 1 / their sum.
float exponentials(float* scores, int n) {
  Vec most = splat(-std::numeric_limits<float>::infinity());
  for (int i = 0; i < n; i += kLanes) {
    const Vec score = load(scores + i);
    most = score > most ? score : most;
  }
  float largest = most[0];
  for (int i = 1; i < kLanes; ++i) largest = most[i] > largest ? most[i] : largest;
  Vec sum = Vec{};
  for (int i = 0; i < n; i += kLanes) {
    const Vec e = exp_of(load(scores + i) - largest);
    sum += e;
    store(scores + i, e);
  }
  return 1.0f / sum_of(sum);
}

#if defined(__AVX512F__)
constexpr int kWideColumns = 4, kValueBatch = 4;
#else
constexpr int kWideColumns = 2, kValueBatch = 4;
#endif

// out += weights times values, for `Vecs` registers of columns from `column` on. Values are `dim` apart.
template <typename T, int Count, int Vecs>
TRITON_ADS_INLINE void sum_columns(const T* values, int dim, const Query* query, int keys, int column) {
  Vec sum[Count][Vecs];
  for (int i = 0; i < Count; ++i)
    for (int v = 0; v < Vecs; ++v) sum[i][v] = load(query[i].out + column + v * kLanes);
  for (int key = 0; key < keys; ++key) {
    for (int v = 0; v < Vecs; ++v) {
      const Vec value = load(values + size_t(key) * dim + column + v * kLanes);
      for (int i = 0; i < Count; ++i) sum[i][v] = multiply_add(splat(query[i].scores[key]), value, sum[i][v]);
    }
  }
  for (int i = 0; i < Count; ++i)
    for (int v = 0; v < Vecs; ++v) store(query[i].out + column + v * kLanes, sum[i][v]);
}

template <typename T, int Count>
void sum_values(const T* values, int dim, const Query* query, int keys) {
  int column = 0;
  for (; column + kWideColumns * kLanes <= dim; column += kWideColumns * kLanes)
    sum_columns<T, Count, kWideColumns>(values, dim, query, keys, column);
  for (; column < dim; column += kLanes) sum_columns<T, Count, 1>(values, dim, query, keys, column);
}

// Calls `f` with the largest of the sizes 8, 4, 3, 2 and 1 that fits, until all queries are covered.
template <int Most, typename F>
TRITON_ADS_INLINE void in_batches(int queries, F f) {
  for (int done = 0; done < queries;) {
    const int left = queries - done;
    if (Most >= 8 && left >= 8) {
      f.template operator()<8>(done);
      done += 8;
    } else if (left >= 4) {
      f.template operator()<4>(done);
      done += 4;
    } else if (left == 3) {
      f.template operator()<3>(done);
      done += 3;
    } else if (left == 2) {
      f.template operator()<2>(done);
      done += 2;
    } else {
      f.template operator()<1>(done);
      done += 1;
    }
  }
}

template <typename T>
void attend_batch(const Attention& a, Query* query, int queries) {
  const T* prompt_keys = static_cast<const T*>(a.prompt_keys);
  const T* prompt_values = static_cast<const T*>(a.prompt_values);
  const T* node_keys = static_cast<const T*>(a.node_keys);
  const T* node_values = static_cast<const T*>(a.node_values);
  int seen = 0;
  for (int i = 0; i < queries; ++i) seen = query[i].seen > seen ? query[i].seen : seen;
  const int blocks = (seen + kKeyBlock - 1) / kKeyBlock, padded = blocks * kKeyBlock;
  in_batches<8>(queries, [&]<int Count>(int at) { score_prompt<T, Count>(prompt_keys, a.dim, query + at, blocks); });
  float factor[kQueryBatch];
  for (int i = 0; i < queries; ++i) {
    float* scores = query[i].scores;
    const int32_t* path = a.path + a.path_start[query[i].row];
    const int nodes = a.path_start[query[i].row + 1] - a.path_start[query[i].row];
    const int end = padded + (nodes + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
    for (int n = 0; n < nodes; ++n)
      scores[padded + n] = score_node(node_keys + size_t(path[n]) * a.dim, query[i].q, a.dim);
    for (int n = query[i].seen; n < padded; ++n) scores[n] = -std::numeric_limits<float>::infinity();
    for (int n = padded + nodes; n < end; ++n) scores[n] = -std::numeric_limits<float>::infinity();
    factor[i] = exponentials(scores, end);
    // exp_of stops at its lower bound; what is not seen has no part at all.
    for (int n = query[i].seen; n < padded; ++n) scores[n] = 0.0f;
    std::memset(query[i].out, 0, a.dim * sizeof(float));
    for (int n = 0; n < nodes; ++n) {
      const T* value = node_values + size_t(path[n]) * a.dim;
      for (int d = 0; d < a.dim; d += kLanes)
        store(query[i].out + d, multiply_add(splat(scores[padded + n]), load(value + d), load(query[i].out + d)));
    }
  }
  in_batches<kValueBatch>(queries,
                          [&]<int Count>(int at) { sum_values<T, Count>(prompt_values, a.dim, query + at, seen); });
  for (int i = 0; i < queries; ++i)
    for (int d = 0; d < a.dim; ++d) query[i].out[d] *= factor[i];
}

template <typename T>
void attend(const Attention& a, int first, int last, float* scores, size_t stride) {
  alignas(64) float out[kQueryBatch][kMaxHeadDim];
  const int queries = (last - first) * a.group;
  for (int start = 0; start < queries; start += kQueryBatch) {
    const int count = queries - start < kQueryBatch ? queries - start : kQueryBatch;
    Query query[kQueryBatch];
    for (int i = 0; i < count; ++i) {
      const int row = first + (start + i) / a.group, head = (start + i) % a.group;
      query[i] = {a.q + row * a.q_row + head * a.dim, scores + i * stride, out[i], a.seen[row], row};
    }
    attend_batch<T>(a, query, count);
    for (int i = 0; i < count; ++i) {
      const int row = first + (start + i) / a.group, head = (start + i) % a.group;
      std::memcpy(a.out + row * a.out_row + head * a.real_dim, out[i], a.real_dim * sizeof(float));
    }
  }
}

}  // namespace
}  // namespace triton_ads
