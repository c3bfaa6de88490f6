// naive: standard attention as it is usually written, at its best. All score matrices at once in
// HBM:
//   S = scale Q K^T     cuBLAS, batched; S [batch, heads, n_q, n_kv] in the problem's dtype
//   P = softmax(S)      in place, one read and one write of S
//   O = P V             cuBLAS, batched
// The products are strong and the softmax runs at the speed of memory; what limits it is that S
// crosses the memory bus four times. The causal mask is applied by the softmax: the products are
// dense, as in any framework.

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/catalogue.h"
#include "kernels/common/convert.cuh"
#include "kernels/common/cublas_check.h"
#include "kernels/common/cuda_check.h"
#include "kernels/common/softmax.cuh"
#include "traffic.h"

namespace flashbench {
namespace {

std::int64_t round_up(std::int64_t x, std::int64_t unit) {
  return (x + unit - 1) / unit * unit;
}

// ---- softmax ----

constexpr std::int64_t kMostThreads = 512;  // of a block of the softmax

struct SoftmaxArguments {
  void* s;            // [rows, n_kv]: scores in, weights out
  float* lse;         // [rows] or null
  std::int64_t rows;  // batch * heads * n_q
  std::int64_t first_row;
  std::int64_t n_q, n_kv;
  bool causal;
};

// One row as 16-byte vectors. A row may start anywhere: the vectors are those of memory, so the
// first and the last may belong to the row in part, and only whole ones are accessed as vectors.
template <class Element, class Index>
struct Row {
  static constexpr int kSize = Vector<Element>::kSize;
  Vector<Element>* data;  // the first vector
  Index begin;            // the row's first element, counted from there
  Index visible_end;      // behind the last key that is not masked
  Index end;

  __device__ Row(const SoftmaxArguments& args, std::int64_t row) {
    const auto address =
        reinterpret_cast<std::uintptr_t>(static_cast<Element*>(args.s) + row * args.n_kv);
    const std::int64_t visible =
        args.causal
            ? max(std::int64_t{0}, min(row % args.n_q + 1 + args.n_kv - args.n_q, args.n_kv))
            : args.n_kv;
    data = reinterpret_cast<Vector<Element>*>(address - address % 16);
    begin = static_cast<Index>(address % 16 / sizeof(Element));
    visible_end = begin + static_cast<Index>(visible);
    end = begin + static_cast<Index>(args.n_kv);
  }

  __device__ Index vectors() const { return (end + kSize - 1) / kSize; }

  // Masked elements, and those outside of the row, are -infinity.
  __device__ Vector<Element> load(Index vector) const {
    const Index first = vector * kSize;
    if (first >= begin && first + kSize <= visible_end) return data[vector];
    const auto* element = reinterpret_cast<const Element*>(data + vector);
    Vector<Element> x;
#pragma unroll
    for (int i = 0; i < kSize / 2; ++i) {
      const auto at = [&](int e) {
        return first + e >= begin && first + e < visible_end ? to_float(element[e]) : -INFINITY;
      };
      x.set2(i, at(2 * i), at(2 * i + 1));
    }
    return x;
  }

  __device__ void store(Index vector, const Vector<Element>& x) const {
    const Index first = vector * kSize;
    if (first >= begin && first + kSize <= end) {
      data[vector] = x;
      return;
    }
    auto* element = reinterpret_cast<Element*>(data + vector);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      if (first + e >= begin && first + e < end) element[e] = from_float<Element>(x.get(e));
    }
  }
};

template <class Element>
__device__ __forceinline__ float vector_max(const Vector<Element>& x) {
  float m = x.get(0);
#pragma unroll
  for (int e = 1; e < x.kSize; ++e) m = fmaxf(m, x.get(e));
  return m;
}

// Makes the compiler forget what it has unpacked: it would carry the floats from one use of a
// vector to the next, in twice the registers, and halve the number of rows in flight.
template <class Element>
__device__ __forceinline__ void forget_unpacked(Vector<Element>& x) {
#pragma unroll
  for (std::uint32_t& word : x.word) asm volatile("" : "+r"(word));
}

// e^(x - m); `reference` is m log2(e).
__device__ __forceinline__ float weight(float x, float reference) {
  return exp2_approx(fmaf(x, kLog2E, -reference));
}

template <class Element>
__device__ __forceinline__ float vector_sum(const Vector<Element>& x, float reference) {
  float sum = 0.0F;
#pragma unroll
  for (int e = 0; e < x.kSize; ++e) sum += weight(x.get(e), reference);
  return sum;
}

template <class Element>
__device__ __forceinline__ Vector<Element> vector_weights(const Vector<Element>& x, float reference,
                                                          float inverse_sum) {
  Vector<Element> p;
#pragma unroll
  for (int i = 0; i < x.kSize / 2; ++i) {
    p.set2(i, weight(x.get(2 * i), reference) * inverse_sum,
           weight(x.get(2 * i + 1), reference) * inverse_sum);
  }
  return p;
}

// A row with nothing to see has maximum -infinity; with reference 0 its weights are 2^-infinity =
// 0.
__device__ __forceinline__ float reference_of(float m) {
  return m == -INFINITY ? 0.0F : m * kLog2E;
}
__device__ __forceinline__ float inverse_of(float sum) {
  return sum == 0.0F ? 0.0F : 1.0F / sum;
}

struct Max {
  static __device__ float identity() { return -INFINITY; }
  static __device__ float warp(float x) { return group_max<32>(x); }
};
struct Sum {
  static __device__ float identity() { return 0.0F; }
  static __device__ float warp(float x) { return group_sum<32>(x); }
};

// Over the threads of a row, blockDim.x of them: a warp, or the whole block. s_partial: [32].
template <class Operation>
__device__ __forceinline__ float reduce_row(float x, float* s_partial) {
  x = Operation::warp(x);
  if (blockDim.x == 32) return x;
  __syncthreads();  // s_partial has been read for the last time
  if (threadIdx.x % 32 == 0) s_partial[threadIdx.x / 32] = x;
  __syncthreads();
  const unsigned lane = threadIdx.x % 32;
  return Operation::warp(lane < blockDim.x / 32 ? s_partial[lane] : Operation::identity());
}

__device__ __forceinline__ void store_lse(const SoftmaxArguments& args, std::int64_t row, float m,
                                          float sum) {
  if (args.lse != nullptr && threadIdx.x == 0)
    args.lse[row] = sum == 0.0F ? -INFINITY : m + logf(sum);
}

// A row stays on the chip between its one read and its one write: kVectors of 16 bytes a thread in
// registers, and what a block of kMostThreads cannot hold there in shared memory. Blocks are
// (threads of a row, rows); with several rows a row is one warp.
template <class Element, int kVectors>
__global__ void __launch_bounds__(kMostThreads, 2) softmax_kernel(const SoftmaxArguments args) {
  extern __shared__ __align__(16) char s_memory[];
  __shared__ float s_partial[32];
  const std::int64_t row_index =
      args.first_row + std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row_index >= args.rows) return;  // a whole warp, in blocks that have no barrier
  const Row<Element, int> row(args, row_index);
  const int vectors = row.vectors();
  const int threads = static_cast<int>(blockDim.x);
  const int thread = static_cast<int>(threadIdx.x);
  auto* s_rest =
      reinterpret_cast<Vector<Element>*>(s_memory);  // each thread its own slots: no barrier

  Vector<Element> x[kVectors];
  float m = -INFINITY;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) x[i] = row.load(thread + i * threads);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) m = fmaxf(m, vector_max(x[i]));
  const int rest = thread + kVectors * threads;
  for (int i = rest; i < vectors; i += threads) {
    const Vector<Element> y = row.load(i);
    s_rest[i - kVectors * threads] = y;
    m = fmaxf(m, vector_max(y));
  }
  m = reduce_row<Max>(m, s_partial);
  const float reference = reference_of(m);

  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    forget_unpacked(x[i]);
    sum += vector_sum(x[i], reference);
  }
  for (int i = rest; i < vectors; i += threads) {
    sum += vector_sum(s_rest[i - kVectors * threads], reference);
  }
  sum = reduce_row<Sum>(sum, s_partial);
  const float inverse = inverse_of(sum);

#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (thread + i * threads < vectors) {
      forget_unpacked(x[i]);
      row.store(thread + i * threads, vector_weights(x[i], reference, inverse));
    }
  }
  for (int i = rest; i < vectors; i += threads) {
    row.store(i, vector_weights(s_rest[i - kVectors * threads], reference, inverse));
  }
  store_lse(args, row_index, m, sum);
}

// Rows that no block can hold: maximum and sum in one pass (Milakov and Gimelshein 2018), weights
// in a second.
template <class Element>
__global__ void __launch_bounds__(kMostThreads, 2)
    softmax_two_pass_kernel(const SoftmaxArguments args) {
  __shared__ float s_partial[32];
  const std::int64_t row_index = args.first_row + blockIdx.x;
  const Row<Element, std::int64_t> row(args, row_index);
  const std::int64_t vectors = row.vectors();

  float m = -INFINITY;
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    const Vector<Element> x = row.load(i);
    const float grown = fmaxf(m, vector_max(x));
    sum = sum * exp2_approx(fmaf(m, kLog2E, -reference_of(grown))) +
          vector_sum(x, reference_of(grown));
    m = grown;
  }
  const float row_max = reduce_row<Max>(m, s_partial);
  const float reference = reference_of(row_max);
  sum = reduce_row<Sum>(sum * weight(m, reference), s_partial);
  const float inverse = inverse_of(sum);
  for (std::int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    row.store(i, vector_weights(row.load(i), reference, inverse));
  }
  store_lse(args, row_index, row_max, sum);
}

using SoftmaxKernel = void (*)(SoftmaxArguments);

struct SoftmaxLaunch {
  SoftmaxKernel kernel;
  dim3 block;
  int shared_bytes;
  std::string choice;
};

template <class Element>
SoftmaxLaunch choose_softmax(std::int64_t n_kv, std::int64_t shared_limit) {
  constexpr std::int64_t kMost = 8;  // vectors of a thread: 32 registers
  constexpr int kSize = Vector<Element>::kSize;
  // A row that does not start on a vector's boundary touches one more.
  const std::int64_t vectors = (n_kv + kSize - 1) / kSize + (n_kv % kSize == 0 ? 0 : 1);
  if (vectors <= 32 * kMost) {
    const dim3 block(32, 4);
    if (vectors <= 32 * 2) return {softmax_kernel<Element, 2>, block, 0, "warp, 2 vectors"};
    if (vectors <= 32 * 4) return {softmax_kernel<Element, 4>, block, 0, "warp, 4 vectors"};
    return {softmax_kernel<Element, kMost>, block, 0, "warp, 8 vectors"};
  }
  const std::int64_t threads = std::min(kMostThreads, round_up((vectors + kMost - 1) / kMost, 32));
  const std::int64_t rest = std::max<std::int64_t>(0, vectors - kMost * threads) * 16;
  const dim3 block(static_cast<unsigned>(threads));
  if (rest + 1024 <= shared_limit) {  // 1024: room for the static part
    return {softmax_kernel<Element, kMost>, block, static_cast<int>(rest),
            "block of " + std::to_string(threads) + ", 8 vectors" +
                (rest > 0 ? " and shared memory" : "")};
  }
  return {softmax_two_pass_kernel<Element>, block, 0, "two passes"};
}

SoftmaxLaunch choose_softmax(const Problem& problem, std::int64_t shared_limit) {
  switch (problem.dtype) {
    case Dtype::f16: return choose_softmax<__half>(problem.n_kv, shared_limit);
    case Dtype::bf16: return choose_softmax<__nv_bfloat16>(problem.n_kv, shared_limit);
    case Dtype::f32: break;
  }
  return choose_softmax<float>(problem.n_kv, shared_limit);
}

// ---- products ----

// One handle for the process: creating one takes tens of milliseconds and device memory of its own.
class Cublas {
 public:
  static cublasHandle_t handle() {
    static const Cublas kShared;
    return kShared.handle_;
  }
  static std::string version() {
    int version = 0;
    CUDA_CHECK(cublasGetVersion(handle(), &version));
    return std::to_string(version);
  }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

 private:
  Cublas() { CUDA_CHECK(cublasCreate(&handle_)); }
  ~Cublas() { cublasDestroy(handle_); }
  cublasHandle_t handle_ = nullptr;
};

// A column-major operand of the products of all heads: matrix (b, h) is that of head h / sharing.
struct Matrices {
  void* const* pointers;  // to all of them, [batch * heads], in device memory
  Tensor tensor;
  std::int64_t sharing;

  std::int64_t leading() const { return tensor.stride[1]; }
  void* at(std::int64_t b, std::int64_t h) const {
    return static_cast<char*>(tensor.data) +
           tensor.at(b, 0, h / sharing, 0) * size_of(tensor.dtype);
  }
  // Every row of every matrix begins at a multiple of 16 bytes.
  bool aligned() const {
    const auto multiple = [&](std::int64_t stride) {
      return stride * size_of(tensor.dtype) % 16 == 0;
    };
    return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && multiple(tensor.stride[0]) &&
           multiple(tensor.stride[1]) && multiple(tensor.stride[2]);
  }
};

// C = alpha op(A) B for all of batch * heads. The two dimensions of heads do not collapse into the
// single stride of cuBLAS' strided batches, and query heads share key/value heads, so it is one
// call with pointers. Such a call picks its kernel without a look at the pointers: matrices that
// do not begin at 16 bytes go in strided calls of the heads that have one stride instead.
struct Products {
  cublasOperation_t transpose_a;
  std::int64_t m, n, k;
  Matrices a, b, c;
  std::int64_t batch, heads;
  float alpha;
  Dtype dtype;

  void enqueue(cublasHandle_t handle) const {
    const bool single = dtype == Dtype::f32;
    // Float32 accumulation throughout; pedantic: no TF32 or other splitting of float32 inputs.
    CUDA_CHECK(cublasSetMathMode(
        handle, single ? CUBLAS_PEDANTIC_MATH : CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    const cudaDataType type = single ? CUDA_R_32F : dtype == Dtype::f16 ? CUDA_R_16F : CUDA_R_16BF;
    const cublasComputeType_t compute = single ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
    const float beta = 0.0F;
    if (a.aligned() && b.aligned() && c.aligned()) {
      CUDA_CHECK(cublasGemmBatchedEx_64(handle, transpose_a, CUBLAS_OP_N, m, n, k, &alpha,
                                        a.pointers, type, a.leading(), b.pointers, type,
                                        b.leading(), &beta, c.pointers, type, c.leading(),
                                        batch * heads, compute, CUBLAS_GEMM_DEFAULT));
      return;
    }
    const std::int64_t together = a.sharing == 1 ? heads : a.sharing;
    const std::int64_t stride_a = a.sharing == 1 ? a.tensor.stride[2] : 0;
    for (std::int64_t i = 0; i < batch; ++i) {
      for (std::int64_t h = 0; h < heads; h += together) {
        CUDA_CHECK(cublasGemmStridedBatchedEx_64(
            handle, transpose_a, CUBLAS_OP_N, m, n, k, &alpha, a.at(i, h), type, a.leading(),
            stride_a, b.at(i, h), type, b.leading(), b.tensor.stride[2], &beta, c.at(i, h), type,
            c.leading(), c.tensor.stride[2], together, compute, CUBLAS_GEMM_DEFAULT));
      }
    }
  }
};

// Where each matrix begins: [batch * heads].
std::vector<void*> head_pointers(const Matrices& matrices) {
  std::vector<void*> pointers;
  for (std::int64_t b = 0; b < matrices.tensor.shape[0]; ++b) {
    for (std::int64_t h = 0; h < matrices.tensor.shape[2] * matrices.sharing; ++h) {
      pointers.push_back(matrices.at(b, h));
    }
  }
  return pointers;
}

// ---- implementation ----

constexpr std::int64_t kCublasWorkspace = 32 << 20;  // what cuBLAS recommends on Hopper

// The workspace: scores, what cuBLAS works in, and the heads' pointers of Q, K, V, O and S.
struct Workspace {
  std::int64_t score_bytes;
  std::int64_t pointer_bytes;  // of one tensor

  explicit Workspace(const Problem& problem)
      : score_bytes(
            round_up(checked_multiply(problem.score_elements(), size_of(problem.dtype)), 256)),
        pointer_bytes(problem.batch * problem.heads * std::int64_t{sizeof(void*)}) {}

  std::int64_t cublas_offset() const { return score_bytes; }
  std::int64_t pointer_offset(int tensor) const {
    return score_bytes + kCublasWorkspace + tensor * pointer_bytes;
  }
  std::int64_t bytes() const {
    return checked_add(score_bytes, kCublasWorkspace + round_up(5 * pointer_bytes, 256));
  }
};

class Naive final : public Implementation {
 public:
  std::string_view name() const override { return "naive"; }
  std::string_view description() const override {
    return "standard attention: cuBLAS GEMM, softmax, cuBLAS GEMM, all scores in memory";
  }
  DeviceKind device() const override { return DeviceKind::cuda; }
  Kind kind() const override { return Kind::naive; }

  std::optional<std::string> unsupported(const Problem& /*problem*/,
                                         const DeviceInfo& /*device*/) const override {
    return std::nullopt;
  }

  Arithmetic arithmetic(const Problem& problem) const override {
    return {.scores_in_dtype = true,
            .weights_in_dtype = true,
            .weights_normalised = true,
            .tensor_core_sums = problem.dtype != Dtype::f32};
  }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    return Workspace(problem).bytes();
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const std::int64_t size = size_of(problem.dtype);
    const std::int64_t q_bytes = problem.q_elements() * size;
    const std::int64_t kv_bytes = problem.kv_elements() * size;
    const std::int64_t s_bytes = problem.score_elements() * size;
    const std::int64_t visible_bytes =
        problem.batch * problem.heads * problem.visible_pairs() * size;
    // Scores that stay in the cache from step to step are written back once, when the cache is
    // needed again.
    const bool cached = s_bytes <= cache_retention_bytes(device);
    const double flops =
        2.0 * static_cast<double>(problem.score_elements()) * static_cast<double>(problem.head_dim);
    const MatrixUnit unit = problem.dtype == Dtype::f32   ? MatrixUnit::fma_f32
                            : problem.dtype == Dtype::f16 ? MatrixUnit::tensor_f16
                                                          : MatrixUnit::tensor_bf16;
    return std::vector<StepModel>{{.name = "QKᵀ",
                                   .read_bytes = q_bytes + kv_bytes,
                                   .write_bytes = cached ? 0 : s_bytes,
                                   .unit = unit,
                                   .matrix_flops = flops,
                                   .exps = 0},
                                  {.name = "softmax",
                                   .read_bytes = cached ? 0 : visible_bytes,
                                   .write_bytes = s_bytes,
                                   .unit = MatrixUnit::none,
                                   .matrix_flops = 0,
                                   .exps = 2 * problem.exps()},
                                  {.name = "PV",
                                   .read_bytes = (cached ? 0 : s_bytes) + kv_bytes,
                                   .write_bytes = q_bytes,
                                   .unit = unit,
                                   .matrix_flops = flops,
                                   .exps = 0}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& device) const override {
    const Workspace layout(problem);
    auto* s = static_cast<char*>(workspace);
    const std::int64_t group = problem.heads / problem.kv_heads;
    // S as one more tensor of heads: [batch, heads, n_q, n_kv].
    const std::int64_t matrix = problem.n_q * problem.n_kv;
    const Tensor scores{s,
                        problem.dtype,
                        {problem.batch, problem.n_q, problem.heads, problem.n_kv},
                        {problem.heads * matrix, problem.n_kv, matrix, 1}};
    int uploaded = 0;
    const auto matrices = [&](const Tensor& tensor, std::int64_t sharing) {
      auto* data = s + layout.pointer_offset(uploaded++);
      const Matrices result{reinterpret_cast<void* const*>(data), tensor, sharing};
      device.upload(data, head_pointers(result).data(), layout.pointer_bytes);
      return result;
    };
    const Matrices q = matrices(operands.q, 1);
    const Matrices k = matrices(operands.k, group);
    const Matrices v = matrices(operands.v, group);
    const Matrices o = matrices(operands.o, 1);
    const Matrices p = matrices(scores, 1);
    // Row-major matrices are to cuBLAS their transposes: S^T = K Q^T, O^T = V^T P^T.
    const Products qk{.transpose_a = CUBLAS_OP_T,
                      .m = problem.n_kv,
                      .n = problem.n_q,
                      .k = problem.head_dim,
                      .a = k,
                      .b = q,
                      .c = p,
                      .batch = problem.batch,
                      .heads = problem.heads,
                      .alpha = static_cast<float>(problem.scale),
                      .dtype = problem.dtype};
    const Products pv{.transpose_a = CUBLAS_OP_N,
                      .m = problem.head_dim,
                      .n = problem.n_q,
                      .k = problem.n_kv,
                      .a = v,
                      .b = p,
                      .c = o,
                      .batch = problem.batch,
                      .heads = problem.heads,
                      .alpha = 1.0F,
                      .dtype = problem.dtype};

    cublasHandle_t handle = Cublas::handle();
    void* cublas_workspace = s + layout.cublas_offset();
    const auto products = [=](const Products& work) {
      return [=](Stream stream) {
        CUDA_CHECK(
            cublasSetStream(handle, static_cast<cudaStream_t>(stream)));  // resets the workspace
        CUDA_CHECK(cublasSetWorkspace(handle, cublas_workspace, kCublasWorkspace));
        work.enqueue(handle);
      };
    };

    const SoftmaxArguments args{s,
                                operands.lse,
                                problem.rows(),
                                0,
                                problem.n_q,
                                problem.n_kv,
                                problem.mask == Mask::causal};
    const SoftmaxLaunch softmax = choose_softmax(problem, device.info().shared_memory_per_block);
    CUDA_CHECK(cudaFuncSetAttribute(softmax.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    softmax.shared_bytes));
    const auto launch_softmax = [=](Stream stream) {
      constexpr std::int64_t kMostBlocks = 0x7fffffff;
      for (std::int64_t first = 0; first < args.rows; first += kMostBlocks * softmax.block.y) {
        SoftmaxArguments part = args;
        part.first_row = first;
        const std::int64_t blocks =
            std::min(kMostBlocks, (args.rows - first + softmax.block.y - 1) / softmax.block.y);
        softmax.kernel<<<static_cast<unsigned>(blocks), softmax.block,
                         static_cast<std::size_t>(softmax.shared_bytes),
                         static_cast<cudaStream_t>(stream)>>>(part);
        CUDA_CHECK(cudaGetLastError());
      }
    };
    Plan plan;
    plan.steps = {{"QKᵀ", products(qk)}, {"softmax", launch_softmax}, {"PV", products(pv)}};
    plan.choices = {{"softmax", softmax.choice}, {"cublas", Cublas::version()}};
    return plan;
  }
};

}  // namespace

std::unique_ptr<Implementation> make_naive() {
  return std::make_unique<Naive>();
}

}  // namespace flashbench
