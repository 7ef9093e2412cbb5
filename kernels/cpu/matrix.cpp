#include "matrix.h"

#include <string>

#include "require.h"

namespace triton_ads {
namespace {

constexpr int64_t kSideMax = int64_t(1) << 24;

bool group_allowed(Pattern pattern, Values values, int group) {
  if (values == Values::kBf16) return group == 0;
  return (group == 32 || group == 64 || group == 128 || group == 256) && group % step_columns(pattern) == 0;
}

}  // namespace

Matrix::Matrix(const MatrixParts& parts) : parts_(parts) {
  require(parts.rows >= 1 && parts.rows <= kSideMax, "rows is " + std::to_string(parts.rows) + "; 1 to 2^24 allowed");
  require(parts.columns >= 1 && parts.columns <= kSideMax,
          "columns is " + std::to_string(parts.columns) + "; 1 to 2^24 allowed");
  const int64_t least = (parts.rows + kTileRows - 1) / kTileRows;
  // Each of at most four group sizes may end in a tile with rows of padding.
  const int64_t most = parts.row_order ? least + 4 : least;
  require(parts.tiles >= least && parts.tiles <= most,
          "the group sizes count " + std::to_string(parts.tiles) + " tiles; " + std::to_string(parts.rows) +
              " rows need " + std::to_string(least) + " to " + std::to_string(most));
  size_t start = 0;
  starts_.reserve(size_t(parts.tiles));
  for (int64_t tile = 0; tile < parts.tiles; ++tile) {
    const int group = parts.groups[tile];
    require(group_allowed(parts.pattern, parts.values, group),
            "tile " + std::to_string(tile) + " has group size " + std::to_string(group) +
                "; 32, 64, 128, 256 (1:4: from 64), and 0 for bf16, are allowed");
    starts_.push_back(start);
    groups_.push_back(uint16_t(group));
    start += tile_bytes(parts.pattern, parts.values, int(parts.columns), group);
  }
  require(parts.byte_count >= 0 && size_t(parts.byte_count) == start,
          "the tiles have " + std::to_string(parts.byte_count) + " bytes; this matrix needs " + std::to_string(start));
  if (!parts.row_order) return;
  require(parts.row_order_count == parts.tiles * kTileRows,
          "row_order has " + std::to_string(parts.row_order_count) + " entries; 32 for each of " +
              std::to_string(parts.tiles) + " tiles are needed");
  std::vector<bool> seen(size_t(parts.rows), false);
  int64_t found = 0;
  for (int64_t slot = 0; slot < parts.row_order_count; ++slot) {
    const int32_t row = parts.row_order[slot];
    require(row >= -1 && row < parts.rows, "row_order holds " + std::to_string(row) + "; -1 to " +
                                               std::to_string(parts.rows - 1) + " allowed");
    if (row >= 0) {
      require(!seen[size_t(row)], "row_order holds row " + std::to_string(row) + " twice");
      seen[size_t(row)] = true;
      ++found;
    }
    order_.push_back(row);
  }
  require(found == parts.rows,
          "row_order holds " + std::to_string(found) + " of " + std::to_string(parts.rows) + " rows");
}

}  // namespace triton_ads
