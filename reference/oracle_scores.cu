#include <algorithm>
#include <cmath>

#include "kernels/common/convert.cuh"
#include "kernels/common/cuda_check.h"
#include "reference/device_array.h"
#include "reference/device_view.cuh"
#include "reference/oracle_rows.h"

// How large scores get: first a bound from the norms of queries and keys, then every visible score.

namespace flashbench {

namespace {

constexpr int kThreads = 256;

/// atomicMax of doubles that are not negative: as integers they have the same order.
__device__ void store_larger(double* to, double value) {
  atomicMax(reinterpret_cast<unsigned long long*>(to),
            static_cast<unsigned long long>(__double_as_longlong(value)));
}

__device__ double warp_sum(double x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

/// A warp a row. `largest`: [batch * heads] squares.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    norms_kernel(View<const Element> view, std::int64_t total, double* largest) {
  const int lane = threadIdx.x % 32;
  const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / 32);
  for (std::int64_t i = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32; i < total;
       i += warps) {
    // Rows of one head follow each other, so that the warps of a block write to few places.
    const std::int64_t n = i % view.rows;
    const std::int64_t head = i / view.rows;  // batch * heads + h
    const Element* x = view.row(head / view.heads, n, head % view.heads);
    double square = 0;
    for (std::int64_t c = lane; c < view.head_dim; c += 32) {
      const double value = static_cast<double>(to_float(x[c]));
      square += value * value;
    }
    square = warp_sum(square);
    if (lane == 0 && square < INFINITY && square > largest[head]) {
      store_larger(largest + head, square);
    }
  }
}

template <class Element>
void launch_norms(const Tensor& tensor, double* largest, cudaStream_t stream) {
  const std::int64_t total = tensor.shape[0] * tensor.shape[1] * tensor.shape[2];
  const std::int64_t blocks = std::min<std::int64_t>((total + 7) / 8, 8192);
  norms_kernel<Element><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      View<const Element>(tensor), total, largest);
  CUDA_CHECK(cudaGetLastError());
}

constexpr int kTile = 64;   // queries and keys of a block's tile; a thread has 4 x 4 of its scores
constexpr int kDepth = 16;  // columns at a time

/// Blocks take tiles of queries of all heads in turn; `largest`: one number, unscaled.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    largest_score_kernel(View<const Element> q, View<const Element> k, std::int64_t tiles,
                         std::int64_t queries_per_key, bool causal, double* largest) {
  __shared__ double s_q[kDepth][kTile + 1];
  __shared__ double s_k[kDepth][kTile + 1];
  const int tx = threadIdx.x % 16;
  const int ty = threadIdx.x / 16;
  const std::int64_t q_tiles = (q.rows + kTile - 1) / kTile;
  double found = 0;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::int64_t head = tile / q_tiles;
    const std::int64_t b = head / q.heads;
    const std::int64_t h = head % q.heads;
    const std::int64_t first_q = tile % q_tiles * kTile;
    const Element* q_head = q.row(b, 0, h);
    const Element* k_head = k.row(b, 0, h / queries_per_key);
    const std::int64_t seen =
        causal ? min(k.rows, first_q + kTile + k.rows - q.rows) : k.rows;  // by the last query
    for (std::int64_t first_k = 0; first_k < seen; first_k += kTile) {
      double score[4][4] = {};
      for (std::int64_t column = 0; column < q.head_dim; column += kDepth) {
        for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
          const int c = i % kDepth;
          const int n = i / kDepth;
          const bool inside = column + c < q.head_dim;
          s_q[c][n] =
              inside && first_q + n < q.rows
                  ? static_cast<double>(to_float(q_head[(first_q + n) * q.row_stride + column + c]))
                  : 0.0;
          s_k[c][n] =
              inside && first_k + n < k.rows
                  ? static_cast<double>(to_float(k_head[(first_k + n) * k.row_stride + column + c]))
                  : 0.0;
        }
        __syncthreads();
        for (int c = 0; c < kDepth; ++c) {
          for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < 4; ++j) score[i][j] += s_q[c][ty + 16 * i] * s_k[c][tx + 16 * j];
          }
        }
        __syncthreads();
      }
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          const std::int64_t query = first_q + ty + 16 * i;
          const std::int64_t key = first_k + tx + 16 * j;
          const bool visible = !causal || key <= query + k.rows - q.rows;
          const double magnitude = fabs(score[i][j]);
          if (visible && magnitude < INFINITY && magnitude > found) found = magnitude;
        }
      }
    }
  }
  for (int step = 16; step > 0; step /= 2) {
    const double other = __shfl_xor_sync(0xffffffffU, found, step);
    found = other > found ? other : found;
  }
  if (threadIdx.x % 32 == 0) store_larger(largest, found);
}

template <class Element>
void launch_largest(const Problem& problem, const Operands& operands, double* largest,
                    cudaStream_t stream) {
  const std::int64_t tiles = problem.batch * problem.heads * ((problem.n_q + kTile - 1) / kTile);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, 4096));
  largest_score_kernel<Element><<<blocks, kThreads, 0, stream>>>(
      View<const Element>(operands.q), View<const Element>(operands.k), tiles,
      problem.heads / problem.kv_heads, problem.mask == Mask::causal, largest);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

std::vector<double> cuda_largest_norms(const Tensor& tensor, cudaStream_t stream) {
  DeviceArray<double> squares(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[2]));
  squares.zero(stream);
  switch (tensor.dtype) {
    case Dtype::f32: launch_norms<float>(tensor, squares.data(), stream); break;
    case Dtype::f16: launch_norms<__half>(tensor, squares.data(), stream); break;
    case Dtype::bf16: launch_norms<__nv_bfloat16>(tensor, squares.data(), stream); break;
  }
  std::vector<double> norms = squares.download(stream);
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

double cuda_largest_visible_score(const Problem& problem, const Operands& operands,
                                  cudaStream_t stream) {
  DeviceArray<double> largest(1);
  largest.zero(stream);
  switch (problem.dtype) {
    case Dtype::f32: launch_largest<float>(problem, operands, largest.data(), stream); break;
    case Dtype::f16: launch_largest<__half>(problem, operands, largest.data(), stream); break;
    case Dtype::bf16:
      launch_largest<__nv_bfloat16>(problem, operands, largest.data(), stream);
      break;
  }
  return problem.scale * largest.download(stream)[0];
}

}  // namespace flashbench
