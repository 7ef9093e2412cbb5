// Errors of the kernels: what was found and what is allowed. The Python module turns them into ValueError.
#pragma once

#include <stdexcept>
#include <string>

namespace triton_ads {

inline void require(bool holds, const std::string& message) {
  if (!holds) throw std::invalid_argument(message);
}

}  // namespace triton_ads
