// What the parts of the Python module share: arrays, a matrix with its arrays, options by name.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <utility>

#include "matrix.h"
#include "product.h"

namespace triton_ads {

namespace nb = nanobind;

template <typename T>
using ReadOnly = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The pattern, the values and the options that Python names; std::invalid_argument for other names.
Pattern pattern_of(const std::string& name);
Values values_of(const std::string& name);
ProductOptions options_of(int activation_bits, int threads, const std::string& path);

// Keeps the arrays alive beside the checked view of them.
class BoundMatrix {
 public:
  BoundMatrix(const std::string& pattern, const std::string& values, int64_t rows, int64_t columns,
              ReadOnly<uint16_t> groups, std::optional<ReadOnly<int32_t>> row_order, ReadOnly<uint8_t> tiles)
      : tiles_(std::move(tiles)),
        matrix_({pattern_of(pattern), values_of(values), rows, columns, groups.data(), int64_t(groups.size()),
                 row_order ? row_order->data() : nullptr, row_order ? int64_t(row_order->size()) : 0, tiles_.data(),
                 int64_t(tiles_.size())}) {}

  const Matrix& matrix() const { return matrix_; }

 private:
  ReadOnly<uint8_t> tiles_;
  Matrix matrix_;
};

// Adds the classes of the decoder to the module.
void bind_decoder(nb::module_& module);

}  // namespace triton_ads
