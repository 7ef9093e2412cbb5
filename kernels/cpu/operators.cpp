// Operators go with the path of the products.
#include "operators.h"

#include <stdexcept>

#include "paths.h"

namespace triton_ads {

const Operators& operators_of(const std::string& path) {
  const std::string name = choose_path(path).name;
#ifdef TRITON_ADS_X86
  for (const Operators* one : {&kAvx512Operators, &kAvx2Operators})
    if (name == one->name) return *one;
#endif
  return kPortableOperators;
}

}  // namespace triton_ads
