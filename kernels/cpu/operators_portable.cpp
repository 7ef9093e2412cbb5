// The decoder's operators, compiled for the path "portable".
#include "operators.inl"

namespace triton_ads {

const Operators kPortableOperators = TRITON_ADS_OPERATORS("portable");

}  // namespace triton_ads
