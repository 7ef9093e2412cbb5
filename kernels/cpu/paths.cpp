// Chooses a path by what the CPU and the operating system support.
#include "paths.h"

#include <stdexcept>

namespace triton_ads {

const std::vector<const Path*>& usable_paths() {
  static const std::vector<const Path*> usable = [] {
    std::vector<const Path*> found;
#ifdef TRITON_ADS_X86
    for (const Path* path : {&kAvx512Vnni, &kAvx2})
      if (path->supported()) found.push_back(path);
#endif
    found.push_back(&kPortable);
    return found;
  }();
  return usable;
}

const Path& choose_path(const std::string& name) {
  if (name.empty()) return *usable_paths().front();
  std::string names;
  for (const Path* path : usable_paths()) {
    if (name == path->name) return *path;
    names += names.empty() ? "" : ", ";
    names += path->name;
  }
  throw std::invalid_argument("path '" + name + "' is not one of those this CPU runs: " + names);
}

}  // namespace triton_ads
