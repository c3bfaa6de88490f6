// fused-simt: FlashAttention (Dao, Fu, Ermon, Rudra and Ré 2022) in plain CUDA, for reading. One
// thread block owns kRows query rows i and walks over the keys j in blocks of kKeys. Online softmax
// (Milakov and Gimelshein 2018) keeps the largest score so far, m_i, the weights' sum relative to
// it, l_i, and the output O_i, rescaled whenever the maximum moves:
//
// - S_ij = scale q_i . k_j                        a tile of scores, in registers
// - m_i' = max(m_i, max_j S_ij)
// - P_ij = exp(S_ij - m_i')
// - l_i' = exp(m_i - m_i') l_i + sum_j P_ij
// - O_i' = exp(m_i - m_i') O_i + sum_j P_ij v_j
//
// and at the end O_i / l_i. S and P exist one tile at a time; nothing of size N x N is ever stored.
// All arithmetic is float32; f16 and bf16 are converted as they are loaded. (Exponentials are base
// 2, with log2(e) folded into the scale.)
//
// Eight lanes share a row: lane x of the eight has the keys x, x + 8, ... of S, and the columns 4 x
// + 32 c (four at a time) of O. Every thread has kRowsOfThread rows, so that a value read from
// shared memory is used kRowsOfThread times: float32 multiply-adds are the limit, and shared-memory
// reads come close behind.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/catalogue.h"
#include "kernels/common/convert.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/families.h"
#include "kernels/common/launch_size.h"
#include "kernels/common/softmax.cuh"
#include "kernels/common/tensor_view.cuh"
#include "traffic.h"

namespace flashbench {
namespace {

struct Arguments {
  TensorView q, k, v, o;
  float* lse;  // [batch, heads, n_q] or null
  std::int64_t n_q, n_kv;
  std::int64_t heads, heads_per_kv_head;
  std::int64_t tiles;  // of query rows in a head
  int head_dim;
  bool causal;
  bool vectors;      // Q, K and V can be read in 16-byte vectors
  float scale_log2;  // scale * log2(e)
};

// kHeadDim is the head dim rounded up to what there are kernels for; the columns between are zero.
template <int kHeadDim>
struct Tile {
  static constexpr int kThreads = 128;
  static constexpr int kLanesOfRow = 8;
  static constexpr int kRowsOfThread = kHeadDim <= 128 ? 8 : 4;
  static constexpr int kRowStep =
      32 / kLanesOfRow;  // between a thread's rows: a warp's lie side by side
  static constexpr int kKeysOfThread = kHeadDim <= 64 ? 8 : 4;
  static constexpr int kVectorsOfThread = kHeadDim / 32;  // float4 columns of O
  static constexpr int kRows = kThreads / kLanesOfRow * kRowsOfThread;
  static constexpr int kKeys = kLanesOfRow * kKeysOfThread;
  static constexpr int kDepth = 32;  // columns of Q and K, or rows of V, in shared memory at a time
  static constexpr int kPad =
      4;  // floats behind each row, so that eight rows lie on different banks
  static constexpr int kStride = kDepth + kPad;

  struct Shared {
    float P[kRows][kKeys + kPad];
    union {
      struct {
        float Q[kRows][kStride];
        float K[kKeys][kStride];
      };
      float V[kDepth][kHeadDim];
    };
  };
  static_assert(sizeof(Shared) <= 64 * 1024, "sm_75 has 64 KB of shared memory for a block");
};

// Copies rows [first_row, +kRows) and columns [first_column, +kColumns) into shared memory as
// float32. What lies outside of the matrix becomes zero.
template <int kRows, int kColumns, int kStride, class Element>
__device__ __forceinline__ void load_tile(float* s_tile, const Matrix<const Element>& matrix,
                                          std::int64_t first_row, int first_column, int head_dim,
                                          bool vectors) {
  constexpr int kSize = Vector<Element>::kSize;
  constexpr int kVectorsOfRow = kColumns / kSize;
  constexpr int kVectors = kRows * kVectorsOfRow / 128;  // of a thread
  constexpr int kBatch = kVectors < 8 ? kVectors : 8;    // in flight: more would take O's registers
  static_assert(kRows * kVectorsOfRow % 128 == 0 && kVectors % kBatch == 0);
  static_assert(128 % kVectorsOfRow == 0);
  constexpr int kRowStep = 128 / kVectorsOfRow;
  const int row = static_cast<int>(threadIdx.x) / kVectorsOfRow;
  const int column = static_cast<int>(threadIdx.x) % kVectorsOfRow * kSize;
  const Element* g_row =
      matrix.data + (first_row + row) * matrix.row_stride + first_column + column;
  const std::int64_t rows = first_column + column < head_dim ? matrix.rows - first_row : 0;
  const int exist = static_cast<int>(min(rows, std::int64_t{kRows}));
  float* s_row = s_tile + row * kStride + column;
#pragma unroll 1
  for (int batch = 0; batch < kVectors; batch += kBatch) {
    Vector<Element> x[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Element* g_element = g_row + i * kRowStep * matrix.row_stride;
      x[i] = {};
      if (row + (batch + i) * kRowStep >= exist) continue;
      if (vectors) {
        x[i] = *reinterpret_cast<const Vector<Element>*>(g_element);
      } else {  // head dims are multiples of eight: a vector is inside as a whole or not at all
#pragma unroll
        for (int e = 0; e < kSize / 2; ++e) {
          x[i].set2(e, to_float(g_element[2 * e]), to_float(g_element[2 * e + 1]));
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
#pragma unroll
      for (int e = 0; e < kSize; e += 4) {
        *reinterpret_cast<float4*>(s_row + i * kRowStep * kStride + e) =
            make_float4(x[i].get(e), x[i].get(e + 1), x[i].get(e + 2), x[i].get(e + 3));
      }
    }
    g_row += kBatch * kRowStep * matrix.row_stride;
    s_row += kBatch * kRowStep * kStride;
  }
}

__device__ __forceinline__ float4 load4(const float* s_address) {
  return *reinterpret_cast<const float4*>(s_address);
}

__device__ __forceinline__ float dot4(const float4& a, const float4& b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

__device__ __forceinline__ void multiply_add4(float4& sum, float a, const float4& b) {
  sum.x = fmaf(a, b.x, sum.x);
  sum.y = fmaf(a, b.y, sum.y);
  sum.z = fmaf(a, b.z, sum.z);
  sum.w = fmaf(a, b.w, sum.w);
}

template <class Element, int kHeadDim>
__global__ void __launch_bounds__(128, 2) fused_simt_kernel(const Arguments args) {
  using T = Tile<kHeadDim>;
  extern __shared__ __align__(16) char s_memory[];
  auto& s = *reinterpret_cast<typename T::Shared*>(s_memory);

  // This block's tile: heads one after the other; the longest rows of a causal head first.
  const std::int64_t head_index = blockIdx.x / args.tiles;
  const std::int64_t tile_index = blockIdx.x % args.tiles;
  const std::int64_t tile = args.causal ? args.tiles - 1 - tile_index : tile_index;
  const std::int64_t batch = head_index / args.heads;
  const std::int64_t head = head_index % args.heads;
  const auto Q = args.q.head<const Element>(batch, head, args.n_q);
  const auto K = args.k.head<const Element>(batch, head / args.heads_per_kv_head, args.n_kv);
  const auto V = args.v.head<const Element>(batch, head / args.heads_per_kv_head, args.n_kv);
  const std::int64_t first_row = tile * T::kRows;

  // This thread's rows (of the tile) and its place among the eight lanes of a row.
  const int row = static_cast<int>(threadIdx.x) / 32 * T::kRowStep * T::kRowsOfThread +
                  static_cast<int>(threadIdx.x) % 32 / T::kLanesOfRow;
  const int lane = static_cast<int>(threadIdx.x) % T::kLanesOfRow;

  float m[T::kRowsOfThread];
  float l[T::kRowsOfThread];
  float4 O[T::kRowsOfThread][T::kVectorsOfThread];
#pragma unroll
  for (int i = 0; i < T::kRowsOfThread; ++i) {
    m[i] = -INFINITY;
    l[i] = 0.0F;
#pragma unroll
    for (int c = 0; c < T::kVectorsOfThread; ++c) O[i][c] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  }

  // Query i sees the keys before i + shift: with a causal mask no block behind the tile's last row
  // is needed.
  const std::int64_t shift = args.causal ? args.n_kv - args.n_q + 1 : args.n_kv;
  const std::int64_t last_row = min(first_row + T::kRows, args.n_q) - 1;
  const std::int64_t keys = args.causal ? min(last_row + shift, args.n_kv) : args.n_kv;

  for (std::int64_t first_key = 0; first_key < keys; first_key += T::kKeys) {
    // S = Q K^T, a slice of the head dim at a time.
    float S[T::kRowsOfThread][T::kKeysOfThread] = {};
    for (int depth = 0; depth < args.head_dim; depth += T::kDepth) {
      __syncthreads();  // the shared tiles have been read for the last time
      load_tile<T::kRows, T::kDepth, T::kStride>(&s.Q[0][0], Q, first_row, depth, args.head_dim,
                                                 args.vectors);
      load_tile<T::kKeys, T::kDepth, T::kStride>(&s.K[0][0], K, first_key, depth, args.head_dim,
                                                 args.vectors);
      __syncthreads();
#pragma unroll 1
      for (int d = 0; d < T::kDepth; d += 4) {
        float4 q[T::kRowsOfThread];
#pragma unroll
        for (int i = 0; i < T::kRowsOfThread; ++i) q[i] = load4(&s.Q[row + T::kRowStep * i][d]);
#pragma unroll
        for (int j = 0; j < T::kKeysOfThread; ++j) {
          const float4 k = load4(&s.K[lane + T::kLanesOfRow * j][d]);
#pragma unroll
          for (int i = 0; i < T::kRowsOfThread; ++i) S[i][j] = dot4(q[i], k, S[i][j]);
        }
      }
    }

    // Online softmax. P goes to shared memory: its rows stay within the warp, its columns do not
    // within a lane. Row i of this thread sees the block's keys before min(diagonal + T::kRowStep *
    // i, end).
    const int end = static_cast<int>(min(args.n_kv - first_key, std::int64_t{T::kKeys}));
    const int diagonal =
        args.causal
            ? static_cast<int>(min(first_row + row + shift - first_key, std::int64_t{T::kKeys}))
            : T::kKeys;
#pragma unroll
    for (int i = 0; i < T::kRowsOfThread; ++i) {
      const int visible = min(diagonal + T::kRowStep * i, end);
      float block_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < T::kKeysOfThread; ++j) {
        S[i][j] = lane + T::kLanesOfRow * j < visible ? S[i][j] * args.scale_log2 : -INFINITY;
        block_max = fmaxf(block_max, S[i][j]);
      }
      const float m_new = fmaxf(m[i], group_max<T::kLanesOfRow>(block_max));
      const float reference =
          m_new == -INFINITY ? 0.0F : m_new;  // no key seen yet: weights of 2^-infinity = 0
      const float factor = exp2_approx(m[i] - reference);
      float sum = 0.0F;
#pragma unroll
      for (int j = 0; j < T::kKeysOfThread; ++j) {
        const float p = exp2_approx(S[i][j] - reference);
        s.P[row + T::kRowStep * i][lane + T::kLanesOfRow * j] = p;
        sum += p;
      }
      m[i] = m_new;
      l[i] = factor * l[i] + sum;
#pragma unroll
      for (int c = 0; c < T::kVectorsOfThread; ++c) {
        O[i][c].x *= factor;
        O[i][c].y *= factor;
        O[i][c].z *= factor;
        O[i][c].w *= factor;
      }
    }

    // O += P V, a slice of the keys at a time.
    for (int slice = 0; slice < T::kKeys; slice += T::kDepth) {
      __syncthreads();  // the shared tiles have been read for the last time; P has been written
      load_tile<T::kDepth, kHeadDim, kHeadDim>(&s.V[0][0], V, first_key + slice, 0, args.head_dim,
                                               args.vectors);
      __syncthreads();
#pragma unroll 1
      for (int j = 0; j < T::kDepth; j += 4) {
        float4 p[T::kRowsOfThread];
#pragma unroll
        for (int i = 0; i < T::kRowsOfThread; ++i)
          p[i] = load4(&s.P[row + T::kRowStep * i][slice + j]);
#pragma unroll
        for (int c = 0; c < T::kVectorsOfThread; ++c) {
          const int column = 4 * lane + 4 * T::kLanesOfRow * c;
          const float4 v0 = load4(&s.V[j][column]);
          const float4 v1 = load4(&s.V[j + 1][column]);
          const float4 v2 = load4(&s.V[j + 2][column]);
          const float4 v3 = load4(&s.V[j + 3][column]);
#pragma unroll
          for (int i = 0; i < T::kRowsOfThread; ++i) {
            multiply_add4(O[i][c], p[i].x, v0);
            multiply_add4(O[i][c], p[i].y, v1);
            multiply_add4(O[i][c], p[i].z, v2);
            multiply_add4(O[i][c], p[i].w, v3);
          }
        }
      }
    }
  }

  // O / l, and m + log l.
  const auto out = args.o.head<Element>(batch, head, args.n_q);
#pragma unroll
  for (int i = 0; i < T::kRowsOfThread; ++i) {
    const float sum = group_sum<T::kLanesOfRow>(l[i]);
    const float inverse = sum == 0.0F ? 0.0F : 1.0F / sum;  // no key seen: the output is 0
    const std::int64_t query = first_row + row + T::kRowStep * i;
    if (query >= args.n_q) continue;
    if (args.lse != nullptr && lane == 0) {
      args.lse[head_index * args.n_q + query] =
          sum == 0.0F ? -INFINITY : (m[i] + log2f(sum)) * kLn2;
    }
    Element* g_row = out.data + query * out.row_stride;
#pragma unroll
    for (int c = 0; c < T::kVectorsOfThread; ++c) {
      const int column = 4 * lane + 4 * T::kLanesOfRow * c;
      if (column >= args.head_dim) continue;
      g_row[column] = from_float<Element>(O[i][c].x * inverse);
      g_row[column + 1] = from_float<Element>(O[i][c].y * inverse);
      g_row[column + 2] = from_float<Element>(O[i][c].z * inverse);
      g_row[column + 3] = from_float<Element>(O[i][c].w * inverse);
    }
  }
}

// ---- host ----

struct Choice {
  void (*kernel)(Arguments);
  int rows;
  int keys;
  int head_dim;
  std::size_t shared_bytes;
};

template <class Element, int kHeadDim>
Choice choice() {
  using T = Tile<kHeadDim>;
  return {fused_simt_kernel<Element, kHeadDim>, T::kRows, T::kKeys, kHeadDim,
          sizeof(typename T::Shared)};
}

template <class Element>
Choice choose(std::int64_t head_dim) {
  if (head_dim <= 64) return choice<Element, 64>();
  if (head_dim <= 128) return choice<Element, 128>();
  return choice<Element, 256>();
}

Choice choose(const Problem& problem) {
  switch (problem.dtype) {
    case Dtype::f16: return choose<__half>(problem.head_dim);
    case Dtype::bf16: return choose<__nv_bfloat16>(problem.head_dim);
    case Dtype::f32: break;
  }
  return choose<float>(problem.head_dim);
}

class FusedSimt final : public SimtImplementation {
 public:
  std::string_view name() const override { return "fused-simt"; }
  std::string_view description() const override {
    return "FlashAttention in plain CUDA with f32 arithmetic, for reading; f32, f16, bf16, sm_75 "
           "and newer";
  }
  Kind kind() const override { return Kind::fused; }

  std::int64_t workspace_bytes(const Problem& /*problem*/,
                               const DeviceInfo& /*device*/) const override {
    return 0;
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const Choice chosen = choose(problem);
    const std::int64_t o_bytes = problem.q_elements() * size_of(problem.dtype);
    const FusedWalk walk{chosen.rows, device.sm_count};
    const double pairs = executed_pairs(problem, chosen.rows, chosen.keys);
    return std::vector<StepModel>{{.name = kStepName,
                                   .read_bytes = o_bytes + streamed_kv_bytes(problem, device, walk),
                                   .write_bytes = o_bytes,
                                   .unit = MatrixUnit::fma_f32,
                                   .matrix_flops = 4.0 * chosen.head_dim * pairs,
                                   .exps = pairs}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* /*workspace*/,
            Device& /*device*/) const override {
    const Choice chosen = choose(problem);
    const std::int64_t tiles = divide_up(problem.n_q, chosen.rows);
    const unsigned blocks = grid_size(name(), problem.batch * problem.heads, tiles);
    Arguments args{};
    args.q = view_of(operands.q);
    args.k = view_of(operands.k);
    args.v = view_of(operands.v);
    args.o = view_of(operands.o);
    args.lse = operands.lse;
    args.n_q = problem.n_q;
    args.n_kv = problem.n_kv;
    args.heads = problem.heads;
    args.heads_per_kv_head = problem.heads / problem.kv_heads;
    args.tiles = tiles;
    args.head_dim = static_cast<int>(problem.head_dim);
    args.causal = problem.mask == Mask::causal;
    args.vectors =
        is_vectorisable(operands.q) && is_vectorisable(operands.k) && is_vectorisable(operands.v);
    args.scale_log2 = static_cast<float>(problem.scale * 1.4426950408889634);
    CUDA_CHECK(cudaFuncSetAttribute(chosen.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(chosen.shared_bytes)));
    const auto launch = [=](Stream stream) {
      chosen.kernel<<<blocks, 128, chosen.shared_bytes, static_cast<cudaStream_t>(stream)>>>(args);
      CUDA_CHECK(cudaGetLastError());
    };
    Plan plan;
    plan.steps.push_back({kStepName, launch});
    plan.choices = {{"tile", std::to_string(chosen.rows) + "x" + std::to_string(chosen.keys) + "x" +
                                 std::to_string(chosen.head_dim)}};
    return plan;
  }

 private:
  static constexpr const char* kStepName = "attention";
};

}  // namespace

std::unique_ptr<Implementation> make_fused_simt() {
  return std::make_unique<FusedSimt>();
}

}  // namespace flashbench
