// SparseGemv: products of 1 to 8 activation rows with packed INT4 weights, dense, 2:4 or 1:4, on the same bytes as the
// CPU kernels (docs/packed_format.md). Aims at the memory roof: every byte of the matrix is read once.
//
//   block = 8 warps = one tile of 32 rows;  lane = row;  the warps share the tile's groups out
//
//        shared memory: x[M][2048] halves   <- all 256 threads load the next 2048 columns together
//                          |
//        warp 0: groups 0, 8, ...   warp 1: groups 1, 9, ...   each lane sums its row in float32
//                          \_________ shared sums ________/  -> y
//
//   - Weights go from global memory to registers: a plane of a step is 64 bytes for 16 lanes, so a warp's load is two
//     full segments. Loads of a whole step are issued before it is used.
//   - Activations are staged in shared memory. All lanes of a warp look at the same quad of columns, whichever value
//     each of them picks from it: the quad is a broadcast, and there are no bank conflicts to avoid.
//   - A position picks its half from the quad's two registers by one `prmt`; 16-bit words of positions are taken
//     apart by shifts and masks alone. Codes become halves by one `lop3` and one subtraction.
//
// Build: cmake option TRITON_ADS_CUDA (kernels/CMakeLists.txt), or by hand
//   nvcc -std=c++17 -O3 -shared -Xcompiler -fPIC -arch=sm_80 sparse_gemv.cu -o libtriton_ads_cuda.so
// Run: triton_ads.serving.gpu.sparse_gemv; scripts/gpu_check.sh tests and times it.

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "../cpu/layout.h"
#include "decode.cuh"

namespace triton_ads {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kChunk = 2048;  // columns staged at once: 32 KiB for 8 activation rows

struct Product {
  const __half* x;          // [count][columns]
  const uint8_t* tiles;
  const int64_t* starts;    // [tiles], byte at which each tile starts
  const int32_t* groups;    // [tiles], group sizes
  const int32_t* row_order; // [32 tiles] or null
  float* y;                 // [count][rows]
  int count, rows, columns;
};

template <int M>
__device__ void stage(const Product& product, int first_column, __half (&staged)[M][kChunk]) {
  // Eight halves at a time where rows are aligned for it.
  const bool aligned = product.columns % 8 == 0 && reinterpret_cast<uintptr_t>(product.x) % 16 == 0;
  for (int m = 0; m < M; ++m) {
    const __half* row = product.x + size_t(m) * product.columns;
    const bool real = m < product.count;
    for (int at = threadIdx.x * 8; at < kChunk; at += kThreads * 8) {
      const int column = first_column + at;
      uint4 eight = {0, 0, 0, 0};
      if (real && aligned && column < product.columns) {
        eight = *reinterpret_cast<const uint4*>(row + column);
      } else if (real) {
        alignas(16) __half parts[8];
        for (int i = 0; i < 8; ++i)
          parts[i] = column + i < product.columns ? row[column + i] : __ushort_as_half(0);
        eight = *reinterpret_cast<const uint4*>(parts);
      }
      *reinterpret_cast<uint4*>(&staged[m][at]) = eight;
    }
  }
}

__device__ __forceinline__ uint32_t load_once(const uint8_t* from) {
  uint32_t word;
  asm("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(word) : "l"(from));
  return word;
}

__device__ __forceinline__ float2 halves(uint32_t both) {
  return __half22float2(*reinterpret_cast<const __half2*>(&both));
}

// Adds one step: 16 kept values of the lane's row. `words` are V01, V23 and I of the lane, `x` the step's first column.
template <Pattern P, int M>
__device__ __forceinline__ void add_step(const uint32_t (&words)[3], const __half (&staged)[M][kChunk], int x,
                                         float (&sum)[M]) {
#pragma unroll
  for (int unit = 0; unit < 4; ++unit) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const Pair code = codes_at(words[unit / 2], 4 * (unit % 2) + 8 * b);
      const int column = x + unit * unit_columns(P) + b * (unit_columns(P) / 2);
      const uint32_t positions = P == Pattern::kDense ? 0 : positions_at(words[2], 2 * unit + 8 * b);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        uint32_t both;
        if constexpr (P == Pattern::kDense) {
          both = *reinterpret_cast<const uint32_t*>(&staged[m][column]);
        } else if constexpr (P == Pattern::kTwoOfFour) {
          const uint2 quad = *reinterpret_cast<const uint2*>(&staged[m][column]);
          both = pick_pair(quad.x, quad.y, positions);
        } else {
          const uint4 quads = *reinterpret_cast<const uint4*>(&staged[m][column]);
          both = pick_from_two(quads.x, quads.y, quads.z, quads.w, positions);
        }
        const float2 picked = halves(both);
        sum[m] = fmaf(code.first, picked.x, fmaf(code.second, picked.y, sum[m]));
      }
    }
  }
}

template <Pattern P, int M>
__global__ void __launch_bounds__(kThreads) sparse_gemv(const Product product) {
  __shared__ __align__(16) __half staged[M][kChunk];
  __shared__ float partial[kWarps][M][kTileRows];
  const int tile = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group_size = product.groups[tile];
  const int steps = group_size / step_columns(P);
  const size_t group_bytes = size_t(steps) * 2 * half_bytes(P) + kScaleBytes;
  const int groups = (product.columns + group_size - 1) / group_size;
  const int groups_of_chunk = kChunk / group_size;
  const uint8_t* const lane_words =
      product.tiles + product.starts[tile] + (lane / kHalfRows) * half_bytes(P) + 4 * (lane % kHalfRows);
  float sum[M] = {};
  for (int first = 0; first < groups; first += groups_of_chunk) {
    __syncthreads();
    stage<M>(product, first * group_size, staged);
    __syncthreads();
    const int last = min(groups, first + groups_of_chunk);
    for (int group = first + warp; group < last; group += kWarps) {
      const uint8_t* const bytes = lane_words + group * group_bytes;
      float of_group[M] = {};
#pragma unroll 2
      for (int s = 0; s < steps; ++s) {
        const uint8_t* const step = bytes + size_t(s) * 2 * half_bytes(P);
        uint32_t words[3];
        words[0] = load_once(step);
        words[1] = load_once(step + kPlane);
        words[2] = P == Pattern::kDense ? 0 : load_once(step + 2 * kPlane);
        add_step<P, M>(words, staged, (group - first) * group_size + s * step_columns(P), of_group);
      }
      const uint8_t* const scales = product.tiles + product.starts[tile] + (group + 1) * group_bytes - kScaleBytes;
      const float scale = __half2float(reinterpret_cast<const __half*>(scales)[lane]);
#pragma unroll
      for (int m = 0; m < M; ++m) sum[m] = fmaf(scale, of_group[m], sum[m]);
    }
  }
#pragma unroll
  for (int m = 0; m < M; ++m) partial[warp][m][lane] = sum[m];
  __syncthreads();
  for (int m = warp; m < M; m += kWarps) {
    float total = 0;
    for (int w = 0; w < kWarps; ++w) total += partial[w][m][lane];
    const int slot = tile * kTileRows + lane;
    const int row = product.row_order ? product.row_order[slot] : slot;
    if (m < product.count && row >= 0 && row < product.rows) product.y[size_t(m) * product.rows + row] = total;
  }
}

template <Pattern P>
void launch(const Product& product, int tiles, cudaStream_t stream) {
  if (product.count == 1) {
    sparse_gemv<P, 1><<<tiles, kThreads, 0, stream>>>(product);
  } else if (product.count <= 4) {
    sparse_gemv<P, 4><<<tiles, kThreads, 0, stream>>>(product);
  } else {
    sparse_gemv<P, 8><<<tiles, kThreads, 0, stream>>>(product);
  }
}

}  // namespace
}  // namespace triton_ads

// Queues the product on the stream; returns the cudaError_t of the launches. The caller has checked the parts (the
// same checks as on the CPU). Pointers are device pointers; pattern: 0 dense, 1 2:4, 2 1:4. Any count >= 0, in passes
// of eight rows.
extern "C" int triton_ads_sparse_gemv(int pattern, const void* x, const void* tiles, const void* starts,
                                      const void* groups, const void* row_order, void* y, int count, int rows,
                                      int columns, int tile_count, void* stream) {
  using namespace triton_ads;
  for (int done = 0; done < count; done += 8) {
    const Product product{static_cast<const __half*>(x) + size_t(done) * columns,
                          static_cast<const uint8_t*>(tiles),
                          static_cast<const int64_t*>(starts),
                          static_cast<const int32_t*>(groups),
                          static_cast<const int32_t*>(row_order),
                          static_cast<float*>(y) + size_t(done) * rows,
                          count - done < 8 ? count - done : 8,
                          rows,
                          columns};
    const auto queue = static_cast<cudaStream_t>(stream);
    if (pattern == 0) launch<Pattern::kDense>(product, tile_count, queue);
    if (pattern == 1) launch<Pattern::kTwoOfFour>(product, tile_count, queue);
    if (pattern == 2) launch<Pattern::kOneOfFour>(product, tile_count, queue);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return int(error);
  }
  return 0;
}
