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
// Rounding fewer rows than this is not shared out.
constexpr int kAloneRows = 8;

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

// The forms in which matrices want activations.
enum Form : int { kSparseForm, kDenseForm, kFloatForm, kForms };

Form form_of(const Matrix& matrix) {
  if (matrix.values() == Values::kBf16) return kFloatForm;
  return matrix.pattern() == Pattern::kDense ? kDenseForm : kSparseForm;
}

// The arrays of one form, as offsets in the scratch; all are multiples of 64 bytes.
struct Room {
  size_t row_bytes, scale_bytes, sum_bytes;
  Room(Form form, size_t stride, int digits) {
    row_bytes = form == kFloatForm ? stride * sizeof(float) : stride * digits;
    scale_bytes = form == kFloatForm ? 0 : (stride / kBlock * 4 + 63) / 64 * 64;
    sum_bytes = form == kFloatForm ? 0 : (stride / kSumColumns * 4 + 63) / 64 * 64;
  }
  size_t total(int count) const { return count * (row_bytes + scale_bytes + sum_bytes); }
};

// Brings rows into one form; rows are shared out among threads where there are many.
struct Preparing {
  Form form;
  const float* x;
  size_t columns, stride;
  uint8_t* memory;
  Room room;
  int count;
  QuantiseRow quantise;

  uint8_t* row(int i) const { return memory + i * room.row_bytes; }
  float* scale(int i) const {
    return reinterpret_cast<float*>(memory + count * room.row_bytes) + i * (stride / kBlock);
  }
  int32_t* sums(int i) const {
    return reinterpret_cast<int32_t*>(memory + count * (room.row_bytes + room.scale_bytes)) + i * (stride / kSumColumns);
  }
};

void prepare_rows(void* context, int first, int last) {
  const Preparing& work = *static_cast<const Preparing*>(context);
  for (int i = first; i < last; ++i) {
    const float* x = work.x + i * work.columns;
    if (work.form == kFloatForm) {
      float* copy = reinterpret_cast<float*>(work.row(i));
      std::memcpy(copy, x, work.columns * sizeof(float));
      std::memset(copy + work.columns, 0, (work.stride - work.columns) * sizeof(float));
    } else {
      work.quantise(x, int(work.columns), int(work.stride), {work.row(i), work.scale(i), work.sums(i)});
    }
  }
}

struct Work {
  std::span<const Product> products;
  const Activations* x;     // [kForms]
  Arithmetic arithmetic;
  const Path* path;
  int done;                 // rows of earlier passes
};

int tiles_of(const Product& product) {
  return product.tiles.empty() ? product.matrix->tiles() : int(product.tiles.size());
}

void store_rows(const Matrix& matrix, int tile, const float* from, float* to) {
  const int start = tile * kTileRows;
  if (const int32_t* order = matrix.order(tile)) {
    for (int row = 0; row < kTileRows; ++row)
      if (order[row] >= 0) to[order[row]] = from[row];
  } else {
    std::memcpy(to + start, from, std::min(kTileRows, matrix.rows() - start) * sizeof(float));
  }
}

void multiply_tile(const Work& work, const Product& product, int t) {
  const Matrix& matrix = *product.matrix;
  const Form form = form_of(matrix);
  const Activations& x = work.x[form];
  const Arithmetic arithmetic = form == kFloatForm ? Arithmetic::kFloat : work.arithmetic;
  const TileProduct* products = work.path->product[int(matrix.pattern())][int(arithmetic)];
  alignas(64) float y[batch_size(0) * kTileRows];
  const int group = matrix.group(t);
  const int span = form == kFloatForm ? step_columns(matrix.pattern()) : group;
  const Tile tile{matrix.tile_start(t), group, (matrix.columns() + span - 1) / span};
  int done = 0;
  for (int nth = 0; nth < kBatchSizes; ++nth) {
    for (const int count = batch_size(nth); x.rows - done >= count; done += count) {
      products[nth](tile, x, done, y);
      for (int i = 0; i < count; ++i)
        store_rows(matrix, t, y + i * kTileRows, product.y + size_t(work.done + done + i) * matrix.rows());
    }
  }
}

// Items are the tiles of all products, one product after the other.
void multiply_tiles(void* context, int first, int last) {
  const Work& work = *static_cast<const Work*>(context);
  int start = 0;
  for (const Product& product : work.products) {
    const int count = tiles_of(product);
    for (int i = std::max(first - start, 0); i < std::min(last - start, count); ++i)
      multiply_tile(work, product, product.tiles.empty() ? i : product.tiles[i]);
    start += count;
  }
}

}  // namespace

void multiply(std::span<const Product> products, const float* x, int64_t count, const ProductOptions& options) {
  static thread_local Scratch scratch;
  const Path& path = options.path ? *options.path : *usable_paths().front();
  const size_t columns = size_t(products.front().matrix->columns());
  const size_t stride = (columns + kMaxGroup - 1) / kMaxGroup * kMaxGroup;
  const int digits = digits_of(options.arithmetic);
  bool wanted[kForms] = {};
  size_t bytes = 0;
  int items = 0;
  for (const Product& product : products) {
    wanted[form_of(*product.matrix)] = true;
    bytes += product.matrix->bytes() / product.matrix->tiles() * tiles_of(product);
    items += tiles_of(product);
  }
  for (int64_t done = 0; done < count; done += kBatchRows) {
    const int rows = int(std::min<int64_t>(kBatchRows, count - done));
    const int threads = bytes * rows < kAloneBytes ? 1 : options.threads;
    size_t needed = 0;
    for (int form = 0; form < kForms; ++form)
      if (wanted[form]) needed += Room(Form(form), stride, digits).total(rows);
    uint8_t* memory = scratch.reserve(needed);
    Activations prepared[kForms];
    for (int form = 0; form < kForms; ++form) {
      if (!wanted[form]) continue;
      const Room room(Form(form), stride, digits);
      Preparing preparing{Form(form), x + done * columns, columns, stride, memory, room, rows,
                          form == kFloatForm ? nullptr : path.quantise[digits - 1][form == kDenseForm]};
      Pool::shared().run(rows, rows < kAloneRows ? 1 : threads, prepare_rows, &preparing);
      Activations& out = prepared[form];
      out.rows = rows;
      out.stride = stride;
      if (form == kFloatForm) {
        out.x = reinterpret_cast<const float*>(memory);
      } else {
        out.digits = memory;
        out.scale = preparing.scale(0);
        out.sums = preparing.sums(0);
      }
      memory += room.total(rows);
    }
    Work work{products, prepared, options.arithmetic, &path, int(done)};
    Pool::shared().run(items, threads, multiply_tiles, &work);
  }
}

void multiply(const Matrix& matrix, const float* x, int64_t count, float* y, const ProductOptions& options) {
  const Product product{&matrix, y};
  multiply(std::span(&product, 1), x, count, options);
}

}  // namespace triton_ads
