#include "reference/oracle_cuda.h"

#include <algorithm>
#include <cmath>

#include "input_values.h"
#include "kernels/common/convert.cuh"
#include "kernels/common/cuda_check.h"
#include "reference/device_array.h"
#include "reference/device_view.cuh"
#include "reference/oracle_rows.h"

namespace flashbench {

namespace {

constexpr int kThreads = 256;
constexpr unsigned kBlocks = 4096;

template <class Element>
__global__ void __launch_bounds__(kThreads)
    fill_kernel(InputShape shape, TensorRole role, View<Element> to) {
  const std::int64_t total = to.batch * to.rows * to.heads * to.head_dim;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < total;
       i += threads) {
    const std::int64_t c = i % to.head_dim;
    const std::int64_t row = i / to.head_dim;
    const std::int64_t h = row % to.heads;
    const std::int64_t n = row / to.heads % to.rows;
    const std::int64_t b = row / to.heads / to.rows;
    to.row(b, n, h)[c] = from_float<Element>(input_value(shape, role, b, n, h, c));
  }
}

template <class Element>
void launch_fill(const InputShape& shape, TensorRole role, const Tensor& tensor,
                 cudaStream_t stream) {
  fill_kernel<Element><<<kBlocks, kThreads, 0, stream>>>(shape, role, View<Element>(tensor));
  CUDA_CHECK(cudaGetLastError());
}

void fill(const InputShape& shape, TensorRole role, const Tensor& tensor, cudaStream_t stream) {
  switch (tensor.dtype) {
    case Dtype::f32: return launch_fill<float>(shape, role, tensor, stream);
    case Dtype::f16: return launch_fill<__half>(shape, role, tensor, stream);
    case Dtype::bf16: return launch_fill<__nv_bfloat16>(shape, role, tensor, stream);
  }
}

/// What one warp found.
struct WarpScan {
  unsigned long long poisoned = 0;
  unsigned long long non_finite = 0;
  unsigned long long differing = 0;
  double max_abs = 0;
  double max_row = 0;
  long long group = -1;  // of max_row
};

__device__ std::uint32_t element_bits(float x) {
  return __float_as_uint(x);
}
__device__ std::uint32_t element_bits(__half x) {
  return 0xffff0000U | __half_as_ushort(x);
}
__device__ std::uint32_t element_bits(__nv_bfloat16 x) {
  return 0xffff0000U | __bfloat16_as_ushort(x);
}

template <class T, class Combine>
__device__ T warp_reduce(T x, Combine combine) {
  for (int step = 16; step > 0; step /= 2) x = combine(x, __shfl_xor_sync(0xffffffffU, x, step));
  return x;
}

/// A warp a group of rows (OutputScan). `other.data` is null where there is none.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    scan_kernel(View<Element> out, View<Element> other, std::int64_t rows_in_group,
                WarpScan* found) {
  const auto add = [](auto a, auto b) { return a + b; };
  const auto larger = [](double a, double b) { return a > b ? a : b; };
  const int lane = threadIdx.x % 32;
  const std::int64_t warp = std::int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const std::int64_t warps = std::int64_t{gridDim.x} * (kThreads / 32);
  const std::int64_t groups_in_head = (out.rows + rows_in_group - 1) / rows_in_group;
  const std::int64_t groups = out.batch * out.heads * groups_in_head;
  WarpScan scan;
  for (std::int64_t group = warp; group < groups; group += warps) {
    const std::int64_t head = group / groups_in_head;
    const std::int64_t first = group % groups_in_head * rows_in_group;
    const std::int64_t rows = min(rows_in_group, out.rows - first);
    double difference_square = 0;
    double norm_square = 0;
    for (std::int64_t i = lane; i < rows * out.head_dim; i += 32) {
      const std::int64_t n = first + i / out.head_dim;
      const Element mine = out.row(head / out.heads, n, head % out.heads)[i % out.head_dim];
      const double value = to_float(mine);
      const std::uint32_t bits = element_bits(mine);
      scan.non_finite += isfinite(value) ? 0 : 1;
      scan.poisoned += bits == 0xffffffffU ? 1 : 0;
      if (other.data == nullptr) continue;
      const Element theirs = other.row(head / out.heads, n, head % out.heads)[i % out.head_dim];
      const double reference = to_float(theirs);
      if (isfinite(reference)) norm_square += reference * reference;
      if (bits == element_bits(theirs)) continue;
      ++scan.differing;
      double difference = fabs(value - reference);
      if (!isfinite(difference))
        difference = !isfinite(value) && !isfinite(reference) ? 0.0 : INFINITY;
      scan.max_abs = larger(scan.max_abs, difference);
      difference_square += difference * difference;
    }
    difference_square = warp_reduce(difference_square, add);
    norm_square = warp_reduce(norm_square, add);
    const double row = difference_square > 0 ? sqrt(difference_square / norm_square) : 0.0;
    if (row > scan.max_row) {
      scan.max_row = row;
      scan.group = group;
    }
  }
  scan.poisoned = warp_reduce(scan.poisoned, add);
  scan.non_finite = warp_reduce(scan.non_finite, add);
  scan.differing = warp_reduce(scan.differing, add);
  scan.max_abs = warp_reduce(scan.max_abs, larger);
  if (lane == 0) found[warp] = scan;
}

template <class Element>
std::vector<WarpScan> launch_scan(const Tensor& out, const Tensor* other, cudaStream_t stream) {
  Tensor none = out;
  none.data = nullptr;
  const DeviceArray<WarpScan> found(kBlocks * (kThreads / 32));
  scan_kernel<Element><<<kBlocks, kThreads, 0, stream>>>(
      View<Element>(out), View<Element>(other != nullptr ? *other : none),
      rows_per_group(out.shape[3]), found.data());
  CUDA_CHECK(cudaGetLastError());
  return found.download(stream);
}

class CudaOracle final : public Oracle {
 public:
  explicit CudaOracle(Stream stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  void generate(const Problem& problem, const InputSpec& spec, const Operands& operands) override {
    const InputShape shape = input_shape(problem, spec);
    fill(shape, TensorRole::q, operands.q, stream_);
    fill(shape, TensorRole::k, operands.k, stream_);
    fill(shape, TensorRole::v, operands.v, stream_);
    CUDA_CHECK(cudaStreamSynchronize(stream_));
  }

  OracleRows rows(const Problem& problem, const Operands& operands,
                  std::span<const RowId> rows) override {
    return cuda_oracle_rows(problem, operands, rows, stream_);
  }

  double largest_score(const Problem& problem, const Operands& operands, double limit) override {
    const std::vector<double> q = cuda_largest_norms(operands.q, stream_);
    const std::vector<double> k = cuda_largest_norms(operands.k, stream_);
    double bound = 0;
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      for (std::int64_t h = 0; h < problem.heads; ++h) {
        const std::int64_t kv_head = h / (problem.heads / problem.kv_heads);
        bound = std::max(bound, problem.scale * q[static_cast<std::size_t>(b * problem.heads + h)] *
                                    k[static_cast<std::size_t>(b * problem.kv_heads + kv_head)]);
      }
    }
    return bound < limit ? bound : cuda_largest_visible_score(problem, operands, stream_);
  }

  OutputScan scan(const Tensor& out, const Tensor* other) override {
    std::vector<WarpScan> found;
    switch (out.dtype) {
      case Dtype::f32: found = launch_scan<float>(out, other, stream_); break;
      case Dtype::f16: found = launch_scan<__half>(out, other, stream_); break;
      case Dtype::bf16: found = launch_scan<__nv_bfloat16>(out, other, stream_); break;
    }
    OutputScan scan;
    long long worst = -1;
    for (const WarpScan& warp : found) {
      scan.poisoned += static_cast<std::int64_t>(warp.poisoned);
      scan.non_finite += static_cast<std::int64_t>(warp.non_finite);
      scan.differing_elements += static_cast<std::int64_t>(warp.differing);
      scan.max_abs_difference = std::max(scan.max_abs_difference, warp.max_abs);
      const bool first =
          warp.max_row == scan.max_row_difference && warp.group >= 0 && warp.group < worst;
      if (warp.max_row > scan.max_row_difference || first) {
        scan.max_row_difference = warp.max_row;
        worst = warp.group;
      }
    }
    if (worst >= 0) {
      const std::int64_t rows_in_group = rows_per_group(out.shape[3]);
      const std::int64_t groups_in_head = (out.shape[1] + rows_in_group - 1) / rows_in_group;
      const std::int64_t head = worst / groups_in_head;
      scan.worst_row = {head / out.shape[2], head % out.shape[2],
                        worst % groups_in_head * rows_in_group};
    }
    return scan;
  }

 private:
  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<Oracle> make_cuda_oracle(Stream stream) {
  return std::make_unique<CudaOracle>(stream);
}

}  // namespace flashbench
