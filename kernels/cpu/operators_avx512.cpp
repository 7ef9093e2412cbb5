// The decoder's operators, compiled for the path "avx512vnni".
#include "operators.inl"

namespace triton_ads {

const Operators kAvx512Operators = TRITON_ADS_OPERATORS("avx512vnni");

}  // namespace triton_ads
