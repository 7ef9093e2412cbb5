// The Python module triton_ads.kernels._native. Thin: it checks shapes, releases the interpreter lock, calls.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "active.h"
#include "bound.h"
#include "matrix.h"
#include "pool.h"
#include "product.h"

using namespace triton_ads;

namespace {

using Input = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void check_shapes(const Matrix& matrix, const Input& x, const Output& y) {
  if (int64_t(x.shape(1)) != matrix.columns())
    throw std::invalid_argument("x has " + std::to_string(x.shape(1)) + " columns; the matrix has " +
                                std::to_string(matrix.columns()));
  if (y.shape(0) != x.shape(0) || int64_t(y.shape(1)) != matrix.rows())
    throw std::invalid_argument("y is " + std::to_string(y.shape(0)) + " x " + std::to_string(y.shape(1)) +
                                "; this product is " + std::to_string(x.shape(0)) + " x " +
                                std::to_string(matrix.rows()));
}

void multiply_bound(const BoundMatrix& bound, const Input& x, const Output& y, int activation_bits, int threads,
                    const std::string& path) {
  check_shapes(bound.matrix(), x, y);
  const ProductOptions options = options_of(activation_bits, threads, path);
  const nb::gil_scoped_release release;
  multiply(bound.matrix(), x.data(), int64_t(x.shape(0)), y.data(), options);
}

// Seconds for the products of one input with each matrix in turn: what a benchmark times without an interpreter
// between the products.
double time_products(const std::vector<const BoundMatrix*>& bound, const Input& x, const Output& y,
                     int activation_bits, int threads, const std::string& path) {
  for (const BoundMatrix* one : bound) check_shapes(one->matrix(), x, y);
  const ProductOptions options = options_of(activation_bits, threads, path);
  const nb::gil_scoped_release release;
  const auto start = std::chrono::steady_clock::now();
  for (const BoundMatrix* one : bound) multiply(one->matrix(), x.data(), int64_t(x.shape(0)), y.data(), options);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct ProbeWork {
  const uint8_t* bytes;
  const Path* path;
};

constexpr size_t kProbePiece = 64 << 10;

void probe_piece(void* context, int first, int last) {
  const ProbeWork& work = *static_cast<const ProbeWork*>(context);
  volatile uint64_t sum = work.path->read_bytes(work.bytes + first * kProbePiece, (last - first) * kProbePiece);
  (void)sum;
}

// Seconds to read the bytes once, in pieces of 64 KiB (a last smaller piece is left out).
double time_reading(const ReadOnly<uint8_t>& bytes, int threads, const std::string& path) {
  ProbeWork work{bytes.data(), &choose_path(path)};
  const int pieces = int(bytes.size() / kProbePiece);
  const nb::gil_scoped_release release;
  const auto start = std::chrono::steady_clock::now();
  Pool::shared().run(pieces, threads, probe_piece, &work);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

NB_MODULE(_native, module) {
  // A matrix or a decoder that a global variable still holds when the interpreter ends is no mistake.
  nb::set_leak_warnings(false);
  // Arrays are never converted: a copy of `y` would swallow the result, a copy of a mapped file would fill memory.
  nb::class_<BoundMatrix>(module, "Matrix")
      .def(nb::init<const std::string&, const std::string&, int64_t, int64_t, ReadOnly<uint16_t>,
                    std::optional<ReadOnly<int32_t>>, ReadOnly<uint8_t>>(),
           nb::arg("pattern"), nb::arg("values"), nb::arg("rows"), nb::arg("columns"), nb::arg("groups").noconvert(),
           nb::arg("row_order").noconvert().none(), nb::arg("tiles").noconvert())
      .def_prop_ro("rows", [](const BoundMatrix& bound) { return bound.matrix().rows(); })
      .def_prop_ro("columns", [](const BoundMatrix& bound) { return bound.matrix().columns(); });
  module.def("multiply", multiply_bound, nb::arg("matrix"), nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("activation_bits"),
             nb::arg("threads"), nb::arg("path"));
  module.def("time_products", time_products, nb::arg("matrices"), nb::arg("x").noconvert(), nb::arg("y").noconvert(),
             nb::arg("activation_bits"), nb::arg("threads"), nb::arg("path"));
  module.def("time_reading", time_reading, nb::arg("bytes").noconvert(), nb::arg("threads"), nb::arg("path"));
  module.def("usable_paths", [] {
    std::vector<std::string> names;
    for (const Path* path : usable_paths()) names.emplace_back(path->name);
    return names;
  });
  bind_decoder(module);
  module.def("usable_cores", usable_cores);
  module.def("active_processes", active_processes);
  module.def("last_threads", [] { return Pool::shared().last_threads(); });
}
