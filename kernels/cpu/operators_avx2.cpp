// The decoder's operators, compiled for the path "avx2".
#include "operators.inl"

namespace triton_ads {

const Operators kAvx2Operators = TRITON_ADS_OPERATORS("avx2");

}  // namespace triton_ads
