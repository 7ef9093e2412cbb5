#include "product.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "pool.h"

namespace triton_ads {
namespace {

constexpr int kBatchRows = 32;  // activation rows that are quantised at once
// Below this a second thread costs more than it brings: some 5 microseconds of reading.
constexpr size_t kAloneBytes = 128 << 10;

// Memory for the quantised activations of one calling thread; grows, is kept, and starts on a cache line.
class Scratch {
 public:
  uint8_t* reserve(size_t bytes) {
    if (bytes > capacity_) {
      capacity_ = (bytes + 63) / 64 * 64;
      memory_.reset(static_cast<uint8_t*>(std::aligned_alloc(64, capacity_)));
      if (!memory_) {
        capacity_ = 0;
        throw std::bad_alloc();
      }
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  std::unique_ptr<uint8_t, Free> memory_;
  size_t capacity_ = 0;
};

// Quantises `count` rows into the scratch.
Activations prepare(const Matrix& matrix, const float* x, int count, Arithmetic arithmetic, const Path& path,
                    Scratch& scratch) {
  const size_t columns = size_t(matrix.columns());
  const size_t stride = (columns + kMaxGroup - 1) / kMaxGroup * kMaxGroup;
  Activations out;
  out.rows = count;
  out.stride = stride;
  if (arithmetic == Arithmetic::kFloat) {
    float* copy = reinterpret_cast<float*>(scratch.reserve(count * stride * sizeof(float)));
    for (int i = 0; i < count; ++i) {
      std::memcpy(copy + i * stride, x + i * columns, columns * sizeof(float));
      std::memset(copy + i * stride + columns, 0, (stride - columns) * sizeof(float));
    }
    out.x = copy;
    return out;
  }
  const bool dense = matrix.pattern() == Pattern::kDense;
  const int digits = digits_of(arithmetic);
  const size_t row_bytes = stride * digits, scales = stride / kBlock, sums = stride / kSumColumns;
  uint8_t* memory = scratch.reserve(count * (row_bytes + (scales + sums) * 4));
  float* scale = reinterpret_cast<float*>(memory + count * row_bytes);
  int32_t* sum = reinterpret_cast<int32_t*>(scale + count * scales);
  for (int i = 0; i < count; ++i)
    path.quantise[digits - 1][dense](x + i * columns, int(columns), int(stride),
                                     {memory + i * row_bytes, scale + i * scales, sum + i * sums});
  out.digits = memory;
  out.scale = scale;
  out.sums = sum;
  return out;
}

struct Work {
  const Matrix* matrix;
  const Activations* x;
  const TileProduct* products;
  float* y;
};

void store_rows(const Matrix& matrix, int tile, const float* from, float* to) {
  const int start = tile * kTileRows;
  if (const int32_t* order = matrix.order(tile)) {
    for (int row = 0; row < kTileRows; ++row)
      if (order[row] >= 0) to[order[row]] = from[row];
  } else {
    std::memcpy(to + start, from, std::min(kTileRows, matrix.rows() - start) * sizeof(float));
  }
}

void multiply_tiles(void* context, int first, int last) {
  const Work& work = *static_cast<const Work*>(context);
  const Matrix& matrix = *work.matrix;
  const bool bf16 = matrix.values() == Values::kBf16;
  alignas(64) float y[batch_size(0) * kTileRows];
  for (int t = first; t < last; ++t) {
    const int group = matrix.group(t);
    const int span = bf16 ? step_columns(matrix.pattern()) : group;
    const Tile tile{matrix.tile_start(t), group, (matrix.columns() + span - 1) / span};
    int done = 0;
    for (int nth = 0; nth < kBatchSizes; ++nth) {
      for (const int count = batch_size(nth); work.x->rows - done >= count; done += count) {
        work.products[nth](tile, *work.x, done, y);
        for (int i = 0; i < count; ++i)
          store_rows(matrix, t, y + i * kTileRows, work.y + size_t(done + i) * matrix.rows());
      }
    }
  }
}

}  // namespace

void multiply(const Matrix& matrix, const float* x, int64_t count, float* y, const ProductOptions& options) {
  static thread_local Scratch scratch;
  const Path& path = options.path ? *options.path : *usable_paths().front();
  const Arithmetic arithmetic = matrix.values() == Values::kBf16 ? Arithmetic::kFloat : options.arithmetic;
  const TileProduct* products = path.product[int(matrix.pattern())][int(arithmetic)];
  for (int64_t i = 0; i < count; i += kBatchRows) {
    const int rows = int(std::min<int64_t>(kBatchRows, count - i));
    const Activations quantised = prepare(matrix, x + i * matrix.columns(), rows, arithmetic, path, scratch);
    Work work{&matrix, &quantised, products, y + i * matrix.rows()};
    const int threads = matrix.bytes() < kAloneBytes ? 1 : options.threads;
    Pool::shared().run(matrix.tiles(), threads, multiply_tiles, &work);
  }
}

}  // namespace triton_ads
