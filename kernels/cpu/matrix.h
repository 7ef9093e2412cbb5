// A packed matrix that has been checked: whatever its bytes hold, a product stays within its buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "layout.h"

namespace triton_ads {

// Views of memory that the owner keeps alive (a mapped file, a NumPy array).
struct MatrixParts {
  Pattern pattern;
  Values values;
  int64_t rows, columns;
  const uint16_t* groups;   // [tiles], group size of each tile; 0 for BF16
  int64_t tiles;
  const int32_t* row_order; // [32 tiles] or null for 0, 1, 2, ...
  int64_t row_order_count;
  const uint8_t* bytes;
  int64_t byte_count;
};

class Matrix {
 public:
  // Throws std::invalid_argument that names the part, the value found and what is allowed.
  explicit Matrix(const MatrixParts& parts);

  Pattern pattern() const { return parts_.pattern; }
  Values values() const { return parts_.values; }
  int rows() const { return int(parts_.rows); }
  int columns() const { return int(parts_.columns); }
  int tiles() const { return int(parts_.tiles); }
  size_t bytes() const { return size_t(parts_.byte_count); }
  const uint8_t* tile_start(int tile) const { return parts_.bytes + starts_[tile]; }
  int group(int tile) const { return groups_[tile]; }
  // The row in each of the tile's 32 rows, -1 for padding; null where they are 32 tile, 32 tile + 1, ...
  const int32_t* order(int tile) const { return order_.empty() ? nullptr : order_.data() + size_t(tile) * kTileRows; }

 private:
  MatrixParts parts_;
  // Copies, so that nobody can change them after the check.
  std::vector<size_t> starts_;
  std::vector<uint16_t> groups_;
  std::vector<int32_t> order_;
};

}  // namespace triton_ads
