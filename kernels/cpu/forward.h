// One pass of tokens through a decoder, for any number of sequences together: weights are read once for all of them,
// attention looks at each sequence's own keys. What a row gets does not depend on which rows are beside it.
#pragma once

#include <cstdint>
#include <span>

#include "sequence.h"

namespace triton_ads {

// What one sequence gets: more prompt, or nodes of its tree. A step of beam search and the verification of many
// continuations are the same call.
struct Part {
  Sequence* sequence;
  bool nodes;
  std::span<const int64_t> tokens;
  std::span<const int64_t> parents;  // of nodes; see Sequence::check_nodes
};

// Which scores a call answers with: for rows (tokens of all parts, one part after the other; ascending), logits of the
// whole vocabulary, or of the candidates of each row, row by row. `normalised` turns logits into log-probabilities over
// the whole vocabulary.
struct Scores {
  std::span<const int64_t> rows;
  bool candidates;
  std::span<const int64_t> candidate_start;  // [rows + 1]
  std::span<const int64_t> candidate;        // tokens
  bool normalised;
  float* out;  // [rows][vocabulary] or [candidates]
};

// Throws std::invalid_argument and changes nothing where something does not fit: a part (sequence.h), scores, sequences
// of two decoders or with other options, a sequence that is in use.
void forward(std::span<const Part> parts, const Scores& scores);

}  // namespace triton_ads
