// The paths: one table of functions for each instruction set, chosen at run time.
#pragma once

#include <string>
#include <vector>

#include "activations.h"
#include "layout.h"

namespace triton_ads {

// One tile of a matrix. `group` is 0 for BF16 values; `groups` then counts steps.
struct Tile {
  const uint8_t* bytes;
  int group;
  int groups;
};

constexpr int kMaxBatch = 5;  // activation rows that share one reading of a tile's registers

// Multiplies a tile by `count` activation rows from `first` on: y[i][row] for i < count, rows of 32 floats.
using TileProduct = void (*)(const Tile& tile, const Activations& x, int first, float* y);
using QuantiseRow = void (*)(const float* x, int columns, int padded, const QuantisedRow& out);

struct Path {
  const char* name;
  bool (*supported)();
  TileProduct product[3][3][kMaxBatch];  // [Pattern][Arithmetic][count - 1]
  QuantiseRow quantise_16;
  QuantiseRow quantise_8_sparse;
  QuantiseRow quantise_8_dense;
  uint64_t (*read_bytes)(const uint8_t* bytes, size_t count);
};

// Paths that this build has and this CPU runs, fastest first. "portable" is always there, last.
const std::vector<const Path*>& usable_paths();

// The path with this name; the fastest for an empty name. Throws std::invalid_argument naming those that are usable.
const Path& choose_path(const std::string& name);

extern const Path kPortable;
#ifdef TRITON_ADS_X86
extern const Path kAvx2;
extern const Path kAvx512Vnni;
#endif

}  // namespace triton_ads
