#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string_view>

#include "implementation.h"
#include "kernels/common/convert.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/launch_size.h"
#include "kernels/common/tensor_view.cuh"

namespace flashbench {

/// How the rows of a head are cut into `count` segments: `length` rows each and one more in the
/// first `longer`; the last ends where the rows do.
struct Segments {
  std::int64_t count, length, longer;
};

struct MeanArguments {
  TensorView from;  // [batch, rows, heads, head_dim]
  TensorView to;    // [batch, segments, heads, head_dim]
  std::int64_t rows, heads;
  Segments segments;
  int head_dim;  // at most 256
};

/// The mean row of each segment of each head, a thread block for each: a warp takes every eighth
/// row, a lane every 32nd column. Divided one by one: the sum of the largest values would overflow.
template <class Element, class Mean>
__global__ void __launch_bounds__(256)
    mean_rows_kernel(const __grid_constant__ MeanArguments args) {
  constexpr int kWarps = 8;
  constexpr int kColumns = 8;  // of a lane
  __shared__ float s_sums[kWarps][32 * kColumns];
  const std::int64_t segment = blockIdx.x % args.segments.count;
  const std::int64_t batch = blockIdx.x / args.segments.count / args.heads;
  const std::int64_t head = blockIdx.x / args.segments.count % args.heads;
  const std::int64_t first = segment * args.segments.length + min(segment, args.segments.longer);
  const std::int64_t rows =
      min(args.segments.length + (segment < args.segments.longer ? 1 : 0), args.rows - first);
  const auto from = args.from.head<const Element>(batch, head, args.rows);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float share = 1.0F / static_cast<float>(rows);

  float sums[kColumns] = {};
  for (std::int64_t row = warp; row < rows; row += kWarps) {
    const Element* g_row = from.data + (first + row) * from.row_stride;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = lane + 32 * i;
      if (column < args.head_dim) sums[i] = fmaf(to_float(g_row[column]), share, sums[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kColumns; ++i) s_sums[warp][lane + 32 * i] = sums[i];
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= args.head_dim) return;
  float mean = 0.0F;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) mean += s_sums[w][column];
  const auto to = args.to.head<Mean>(batch, head, args.segments.count);
  to.data[segment * to.row_stride + column] = from_float<Mean>(mean);
}

/// A launch of it for a tensor of `kv_heads` heads, on behalf of implementation `name`.
template <class Element, class Mean>
Enqueue mean_rows(std::string_view name, const Problem& problem, const MeanArguments& args) {
  const unsigned blocks = grid_size(name, problem.batch * problem.kv_heads, args.segments.count);
  return [=](Stream stream) {
    mean_rows_kernel<Element, Mean><<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(args);
    CUDA_CHECK(cudaGetLastError());
  };
}

}  // namespace flashbench
