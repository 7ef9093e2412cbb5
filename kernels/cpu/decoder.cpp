#include "decoder.h"

#include <string>

#include "operators.h"
#include "require.h"

namespace triton_ads {
namespace {

std::string text(int64_t number) { return std::to_string(number); }

void require_shape(const Matrix* matrix, const std::string& name, int rows, int columns) {
  require(matrix->rows() == rows && matrix->columns() == columns,
          name + " is " + text(matrix->rows()) + " x " + text(matrix->columns()) + "; this model needs " + text(rows) +
              " x " + text(columns));
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

}  // namespace triton_ads
