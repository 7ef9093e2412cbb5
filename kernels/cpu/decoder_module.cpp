// The decoder's part of the Python module: shapes of arrays are checked, the interpreter lock is released, one call
// is one forward pass.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bound.h"
#include "decoder.h"
#include "forward.h"
#include "require.h"

namespace triton_ads {
namespace {

using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr size_t kLayerMatrices = 7, kLayerParts = kLayerMatrices + 2;

// Keeps the arrays and matrices alive beside the decoder that looks at them.
class BoundDecoder {
 public:
  BoundDecoder(int hidden, int heads, int kv_heads, int head_dim, int vocabulary, int positions, float epsilon,
               const nb::list& layers, ReadOnly<uint16_t> embeddings, ReadOnly<float> final_norm, nb::object head,
               ReadOnly<float> inverse_frequencies)
      : embeddings_(std::move(embeddings)),
        final_norm_(std::move(final_norm)),
        inverse_frequencies_(std::move(inverse_frequencies)),
        decoder_(parts_of({hidden, heads, kv_heads, head_dim, vocabulary, positions, epsilon}, layers, head)) {}

  const Decoder& decoder() const { return decoder_; }

 private:
  const Matrix* keep_matrix(nb::object object) {
    const Matrix* matrix = &nb::cast<const BoundMatrix&>(object).matrix();
    kept_.push_back(std::move(object));
    return matrix;
  }

  const float* keep_norm(const nb::object& object, int hidden, const std::string& name) {
    norms_.push_back(nb::cast<ReadOnly<float>>(object));
    require(int64_t(norms_.back().size()) == hidden, name + " has " + std::to_string(norms_.back().size()) +
                                                         " values; this model needs " + std::to_string(hidden));
    return norms_.back().data();
  }

  DecoderParts parts_of(const DecoderShape& shape, const nb::list& layers, const nb::object& head) {
    require(shape.hidden > 0 && int64_t(final_norm_.size()) == shape.hidden,
            "the final norm has " + std::to_string(final_norm_.size()) + " values; this model needs " +
                std::to_string(shape.hidden));
    require(int64_t(embeddings_.size()) == int64_t(shape.vocabulary) * shape.hidden,
            "there are " + std::to_string(embeddings_.size()) + " values of embeddings; " +
                std::to_string(shape.vocabulary) + " x " + std::to_string(shape.hidden) + " are needed");
    require(int64_t(inverse_frequencies_.size()) == shape.head_dim / 2,
            "there are " + std::to_string(inverse_frequencies_.size()) + " frequencies; head_dim " +
                std::to_string(shape.head_dim) + " needs half of it");
    DecoderParts parts{shape, {}, embeddings_.data(), final_norm_.data(), keep_matrix(head),
                       inverse_frequencies_.data()};
    for (size_t number = 0; number < layers.size(); ++number) {
      const nb::tuple of = nb::cast<nb::tuple>(layers[number]);
      const std::string name = "layer " + std::to_string(number);
      require(of.size() == kLayerParts, name + " has " + std::to_string(of.size()) + " parts; " +
                                            std::to_string(kLayerParts) + " are needed");
      const Matrix* matrices[kLayerMatrices];
      for (size_t i = 0; i < kLayerMatrices; ++i) matrices[i] = keep_matrix(of[i]);
      parts.layers.push_back({matrices[0], matrices[1], matrices[2], matrices[3], matrices[4], matrices[5], matrices[6],
                              keep_norm(of[kLayerMatrices], shape.hidden, name + ": attention norm"),
                              keep_norm(of[kLayerMatrices + 1], shape.hidden, name + ": MLP norm")});
    }
    return parts;
  }

  ReadOnly<uint16_t> embeddings_;
  ReadOnly<float> final_norm_, inverse_frequencies_;
  std::vector<nb::object> kept_;
  std::vector<ReadOnly<float>> norms_;
  Decoder decoder_;
};

CacheType cache_of(const std::string& name) {
  if (name == "float16") return CacheType::kFloat16;
  if (name == "float32") return CacheType::kFloat32;
  throw std::invalid_argument("cache is '" + name + "'; float16 and float32 are allowed");
}

class BoundSequence {
 public:
  BoundSequence(const BoundDecoder& bound, int64_t prompt_capacity, int64_t node_capacity, const std::string& cache,
                int activation_bits, int threads, const std::string& path)
      : sequence_(bound.decoder(), {capacity("prompt_capacity", prompt_capacity),
                                    capacity("node_capacity", node_capacity), cache_of(cache),
                                    options_of(activation_bits, threads, path)}) {}

  Sequence& sequence() { return sequence_; }
  const Sequence& sequence() const { return sequence_; }

 private:
  static int capacity(const std::string& name, int64_t value) {
    require(value >= 0 && value <= 1 << 24, name + " is " + std::to_string(value) + "; 0 to 2^24 allowed");
    return int(value);
  }

  Sequence sequence_;
};

Scores scores_of(const ReadOnly<int64_t>& rows, const std::optional<ReadOnly<int64_t>>& starts,
                 const std::optional<ReadOnly<int64_t>>& candidates, bool normalised, int vocabulary, const Floats& out) {
  require(starts.has_value() == candidates.has_value(), "candidates and their starts go together");
  Scores scores{{rows.data(), rows.size()}, candidates.has_value(), {}, {}, normalised, out.data()};
  size_t needed = rows.size() * size_t(vocabulary);
  if (candidates) {
    scores.candidate_start = {starts->data(), starts->size()};
    scores.candidate = {candidates->data(), candidates->size()};
    needed = candidates->size();
    require(starts->size() > 0, "there are 0 candidate starts; one more than rows is needed");
  }
  require(out.size() == needed,
          "out has " + std::to_string(out.size()) + " values; this call needs " + std::to_string(needed));
  return scores;
}

// Each part is (sequence, tokens, parents): None instead of parents for more prompt.
void run_forward(const nb::list& bound, const ReadOnly<int64_t>& rows,
                 const std::optional<ReadOnly<int64_t>>& starts, const std::optional<ReadOnly<int64_t>>& candidates,
                 bool normalised, const Floats& out) {
  std::vector<Part> parts;
  std::vector<ReadOnly<int64_t>> kept;  // alive while the lock is released
  for (const nb::handle handle : bound) {
    const nb::tuple of = nb::cast<nb::tuple>(handle);
    require(of.size() == 3, "a part has " + std::to_string(of.size()) + " values; 3 are needed");
    const ReadOnly<int64_t>& tokens = kept.emplace_back(nb::cast<ReadOnly<int64_t>>(of[1], false));
    Part part{&nb::cast<BoundSequence&>(of[0]).sequence(), !of[2].is_none(), {tokens.data(), tokens.size()}, {}};
    if (part.nodes) {
      const ReadOnly<int64_t>& parents = kept.emplace_back(nb::cast<ReadOnly<int64_t>>(of[2], false));
      part.parents = {parents.data(), parents.size()};
    }
    parts.push_back(part);
  }
  require(!parts.empty(), "a call has 0 parts; at least 1 is needed");
  const int vocabulary = parts.front().sequence->decoder().shape().vocabulary;
  const Scores scores = scores_of(rows, starts, candidates, normalised, vocabulary, out);
  const nb::gil_scoped_release release;
  forward(parts, scores);
}

}  // namespace

void bind_decoder(nb::module_& module) {
  nb::class_<BoundDecoder>(module, "Decoder")
      .def(nb::init<int, int, int, int, int, int, float, const nb::list&, ReadOnly<uint16_t>, ReadOnly<float>,
                    nb::object, ReadOnly<float>>(),
           nb::kw_only(), nb::arg("hidden"), nb::arg("heads"), nb::arg("kv_heads"), nb::arg("head_dim"),
           nb::arg("vocabulary"), nb::arg("positions"), nb::arg("epsilon"), nb::arg("layers"),
           nb::arg("embeddings").noconvert(), nb::arg("final_norm").noconvert(), nb::arg("head"),
           nb::arg("inverse_frequencies").noconvert());
  nb::class_<BoundSequence>(module, "Sequence")
      .def(nb::init<const BoundDecoder&, int64_t, int64_t, const std::string&, int, int, const std::string&>(),
           nb::keep_alive<1, 2>(), nb::arg("decoder"), nb::kw_only(), nb::arg("prompt_capacity"),
           nb::arg("node_capacity"), nb::arg("cache"), nb::arg("activation_bits"), nb::arg("threads"), nb::arg("path"))
      .def("clear_nodes", [](BoundSequence& bound) { bound.sequence().clear_nodes(); })
      .def("cut", [](BoundSequence& bound, int64_t length) { bound.sequence().cut(length); }, nb::arg("length"))
      .def_prop_ro("length", [](const BoundSequence& bound) { return bound.sequence().length(); })
      .def_prop_ro("nodes", [](const BoundSequence& bound) { return bound.sequence().nodes(); })
      .def_prop_ro("cache_bytes", [](const BoundSequence& bound) { return bound.sequence().cache().bytes(); });
  module.def("forward", &run_forward, nb::arg("parts"), nb::arg("rows").noconvert(),
             nb::arg("starts").noconvert().none(), nb::arg("candidates").noconvert().none(), nb::arg("normalised"),
             nb::arg("out").noconvert());
}

}  // namespace triton_ads
