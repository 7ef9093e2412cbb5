// Errors of the kernels: what was found and what is allowed. The Python module turns them into ValueError.
#pragma once

#include <stdexcept>
#include <string>

namespace triton_ads {

[[noreturn]] inline void refuse(const std::string& message) { throw std::invalid_argument(message); }

// Its message is made whether it holds or not: loops over tokens test first and `refuse`.
inline void require(bool holds, const std::string& message) {
  if (!holds) refuse(message);
}

}  // namespace triton_ads
