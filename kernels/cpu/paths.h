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

// Activation rows that share one reading of a tile: 8, 4, 2 and 1.
constexpr int kBatchSizes = 4;
static constexpr int batch_size(int nth) { return 8 >> nth; }

// Multiplies a tile by as many activation rows as the function is made for, from `first` on: y[i][32].
using TileProduct = void (*)(const Tile& tile, const Activations& x, int first, float* y);
using QuantiseRow = void (*)(const float* x, int columns, int padded, const QuantisedRow& out);

struct Path {
  const char* name;
  bool (*supported)();
  TileProduct product[3][3][kBatchSizes];  // [Pattern][Arithmetic][nth batch size]
  QuantiseRow quantise[2][2];              // [digits - 1][dense]
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

// The tables of a path, from its templates `product<Pattern, Arithmetic, Count>` and quantise_row.
#define TRITON_ADS_BATCHES(P, A) {product<P, A, 8>, product<P, A, 4>, product<P, A, 2>, product<P, A, 1>}
#define TRITON_ADS_ARITHMETICS(P)              \
  {TRITON_ADS_BATCHES(P, Arithmetic::kA16), TRITON_ADS_BATCHES(P, Arithmetic::kA8), \
   TRITON_ADS_BATCHES(P, Arithmetic::kFloat)}
#define TRITON_ADS_PATH(NAME, SUPPORTED)                                                    \
  {NAME,                                                                                    \
   SUPPORTED,                                                                               \
   {TRITON_ADS_ARITHMETICS(Pattern::kDense), TRITON_ADS_ARITHMETICS(Pattern::kTwoOfFour),   \
    TRITON_ADS_ARITHMETICS(Pattern::kOneOfFour)},                                           \
   {{quantise_row<1, false>, quantise_row<1, true>}, {quantise_row<2, false>, quantise_row<2, true>}}, \
   read_bytes}

}  // namespace triton_ads
