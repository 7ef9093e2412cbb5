#include "bound.h"

#include <stdexcept>

namespace triton_ads {

Pattern pattern_of(const std::string& name) {
  if (name == "dense") return Pattern::kDense;
  if (name == "2:4") return Pattern::kTwoOfFour;
  if (name == "1:4") return Pattern::kOneOfFour;
  throw std::invalid_argument("pattern is '" + name + "'; dense, 2:4 and 1:4 are allowed");
}

Values values_of(const std::string& name) {
  if (name == "int4") return Values::kInt4;
  if (name == "bf16") return Values::kBf16;
  throw std::invalid_argument("values is '" + name + "'; int4 and bf16 are allowed");
}

static Arithmetic arithmetic_of(int activation_bits) {
  if (activation_bits == 16) return Arithmetic::kA16;
  if (activation_bits == 8) return Arithmetic::kA8;
  throw std::invalid_argument("activation_bits is " + std::to_string(activation_bits) + "; 16 and 8 are allowed");
}

ProductOptions options_of(int activation_bits, int threads, const std::string& path) {
  if (threads < 1 || threads > 1024)
    throw std::invalid_argument("threads is " + std::to_string(threads) + "; 1 to 1024 allowed");
  return {arithmetic_of(activation_bits), threads, &choose_path(path)};
}

}  // namespace triton_ads
