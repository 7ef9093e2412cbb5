#include "cache.h"

#include <sys/mman.h>

#include <new>
#include <string>

#include "require.h"

namespace triton_ads {

Cache::Cache(const CacheShape& shape) : shape_(shape) {
  element_ = shape.type == CacheType::kFloat16 ? 2 : 4;
  const size_t blocks = (size_t(shape.prompt) + kKeyBlock - 1) / kKeyBlock;
  prompt_elements_ = blocks * kKeyBlock * size_t(shape.dim);
  node_elements_ = size_t(shape.nodes) * size_t(shape.dim);
  head_elements_ = 2 * (prompt_elements_ + node_elements_);
  const double bytes = double(head_elements_) * double(element_) * shape.layers * shape.heads;
  require(bytes <= double(size_t(1) << 40), "keys and values of " + std::to_string(shape.prompt) + " prompt tokens and " +
                                                std::to_string(shape.nodes) + " nodes need " + std::to_string(bytes) +
                                                " bytes; at most 2^40 allowed");
  bytes_ = head_elements_ * element_ * size_t(shape.layers) * size_t(shape.heads);
  if (bytes_ == 0) bytes_ = 1;
  // Pages of zeros that take up memory when they are first written.
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  madvise(mapped, bytes_, MADV_HUGEPAGE);
  memory_ = static_cast<uint8_t*>(mapped);
}

Cache::~Cache() { munmap(memory_, bytes_); }

uint8_t* Cache::start(int layer, int head, size_t element) const {
  return memory_ + ((size_t(layer) * shape_.heads + head) * head_elements_ + element) * element_;
}

Cache::Place Cache::prompt_key(int layer, int head, int index) const {
  const size_t block = size_t(index / kKeyBlock) * shape_.dim * kKeyBlock;
  return {start(layer, head, block + index % kKeyBlock), size_t(kKeyBlock)};
}

Cache::Place Cache::prompt_value(int layer, int head, int index) const {
  return {start(layer, head, prompt_elements_ + size_t(index) * shape_.dim), 1};
}

Cache::Place Cache::node_key(int layer, int head, int index) const {
  return {start(layer, head, 2 * prompt_elements_ + size_t(index) * shape_.dim), 1};
}

Cache::Place Cache::node_value(int layer, int head, int index) const {
  return {start(layer, head, 2 * prompt_elements_ + node_elements_ + size_t(index) * shape_.dim), 1};
}

}  // namespace triton_ads
