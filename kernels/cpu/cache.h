// Keys and values of one sequence: its prompt, and the nodes of a token tree that grows from the prompt's end.
// Allocated once and never reordered; attention.inl reads it.
//
//   of each layer and key-value head:  prompt keys [blocks][dim][16], prompt values [keys][dim],
//                                      node keys [nodes][dim], node values [nodes][dim]
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators.h"

namespace triton_ads {

struct CacheShape {
  int layers, heads, dim;  // key-value heads; width of a head, padded to a multiple of 16
  int prompt, nodes;       // most keys of each kind
  CacheType type;
};

class Cache {
 public:
  // Throws std::invalid_argument where the size passes 2^40 bytes, std::bad_alloc where the system refuses it.
  explicit Cache(const CacheShape& shape);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  const CacheShape& shape() const { return shape_; }
  size_t bytes() const { return bytes_; }

  // Where key or value number `index` goes, and the distance of its elements.
  struct Place {
    void* at;
    size_t stride;
  };
  Place prompt_key(int layer, int head, int index) const;
  Place prompt_value(int layer, int head, int index) const;
  Place node_key(int layer, int head, int index) const;
  Place node_value(int layer, int head, int index) const;

 private:
  uint8_t* start(int layer, int head, size_t element) const;

  CacheShape shape_;
  size_t element_, prompt_elements_, node_elements_, head_elements_, bytes_;
  uint8_t* memory_;
};

}  // namespace triton_ads
