// linear: linear attention (Katharopoulos, Vyas, Pappas and Fleuret 2020), an approximation. With
// phi = elu + 1 in the place of the exponential, sums over the keys can be taken before the query
// is known, and work grows with N:
//
// - S_c = sum_{j < c} phi(k_j) v_j^T           [head_dim x head_dim]: the state after c keys
// - z_c = sum_{j < c} phi(k_j)
// - O_i = phi(q_i) S_c / phi(q_i) z_c          c: the keys that row i sees
//
// The scale is shared between q and k by its root. Three kernels: the state of each chunk of keys;
// the running sum over the chunks; the output, to which the keys behind the last whole chunk
// contribute as products of features P_ij = phi(q_i) phi(k_j), j < c, as in any attention.
//
// Every product is one of 64x64 tiles in plain float32: 256 threads with 4x4 elements each, both
// factors in shared memory with the summed index first. Float32 multiply-adds are the limit.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
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
#include "kernels/common/visible_keys.h"
#include "traffic.h"

namespace flashbench {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;           // rows and columns of a tile
constexpr int kDepth = 32;          // of the summed index in shared memory at a time
constexpr int kChunk = 256;         // keys of a chunk: a state is kept for each
constexpr int kStride = kTile + 4;  // floats, a multiple of 4 for vector reads
static_assert(kTile * kTile == 16 * kThreads, "a thread has 4x4 elements of a tile");
static_assert(kTile * kDepth == 8 * kThreads, "a thread loads eight elements of a factor");
static_assert(kChunk % kTile == 0);

struct Arguments {
  TensorView q, k, v, o;
  float* lse;     // [batch, heads, n_q] or null
  float* states;  // [batch, kv_heads, chunks, head_dim * head_dim (S) + head_dim (z)]
  Visibility visibility;
  std::int64_t heads, kv_heads;
  std::int64_t chunks;     // of keys in a head
  std::int64_t row_tiles;  // of queries in a head
  int head_dim;
  int column_tiles;  // of the head dim
  bool vectors;      // Q, K and V can be read in 16-byte vectors
  float root_scale;  // the square root of the scale

  __host__ __device__ std::int64_t state_size() const {
    return std::int64_t{head_dim} * head_dim + head_dim;
  }
};

struct Factors {
  float A[kDepth][kStride];  // [summed index][row]
  float B[kDepth][kStride];  // [summed index][column]
};

// ---- steps ----

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

// phi(root x) = exp(root x) where that is below 1, else 1 + root x. NaN stays NaN.
struct Feature {
  float root;
  __device__ float operator()(float x) const {
    const float scaled = root * x;
    return scaled > 0.0F ? scaled + 1.0F : exp2_approx(scaled * kLog2E);
  }
};

// x = apply(eight elements of a row); zero where the row or the columns are outside of the matrix.
template <class Element, class Apply>
__device__ __forceinline__ void load8(float (&x)[8], const Matrix<const Element>& matrix,
                                      std::int64_t row, int column, int head_dim, bool vectors,
                                      Apply apply) {
  constexpr int kSize = Vector<Element>::kSize;
#pragma unroll
  for (float& value : x) value = 0.0F;
  // Head dims are multiples of eight: the columns are inside as a whole or not at all.
  if (row >= matrix.rows || column >= head_dim) return;
  const Element* g_element = matrix.data + row * matrix.row_stride + column;
  if (vectors) {
#pragma unroll
    for (int part = 0; part < 8; part += kSize) {
      const auto packed = *reinterpret_cast<const Vector<Element>*>(g_element + part);
#pragma unroll
      for (int e = 0; e < kSize; ++e) x[part + e] = apply(packed.get(e));
    }
  } else {
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e] = apply(to_float(g_element[e]));
  }
}

// s_tile[i][c] = apply(matrix[first_row + i][first_column + c]), kDepth rows of kTile columns.
template <class Element, class Apply>
__device__ __forceinline__ void load_rows(float (*s_tile)[kStride],
                                          const Matrix<const Element>& matrix,
                                          std::int64_t first_row, int first_column, int head_dim,
                                          bool vectors, Apply apply) {
  const int row = static_cast<int>(threadIdx.x) / (kTile / 8);
  const int column = static_cast<int>(threadIdx.x) % (kTile / 8) * 8;
  float x[8];
  load8(x, matrix, first_row + row, first_column + column, head_dim, vectors, apply);
#pragma unroll
  for (int e = 0; e < 8; e += 4) {
    *reinterpret_cast<float4*>(&s_tile[row][column + e]) =
        make_float4(x[e], x[e + 1], x[e + 2], x[e + 3]);
  }
}

// s_tile[c][i] = apply(matrix[first_row + i][first_column + c]), kTile rows of kDepth columns.
template <class Element, class Apply>
__device__ __forceinline__ void load_transposed(float (*s_tile)[kStride],
                                                const Matrix<const Element>& matrix,
                                                std::int64_t first_row, int first_column,
                                                int head_dim, bool vectors, Apply apply) {
  const int row = static_cast<int>(threadIdx.x) / (kDepth / 8);
  const int column = static_cast<int>(threadIdx.x) % (kDepth / 8) * 8;
  float x[8];
  load8(x, matrix, first_row + row, first_column + column, head_dim, vectors, apply);
#pragma unroll
  for (int e = 0; e < 8; ++e) s_tile[column + e][row] = x[e];
}

// A thread's place: rows 4 y..+3 and columns 4 x..+3 of a tile.
__device__ __forceinline__ int thread_x() {
  return static_cast<int>(threadIdx.x) % (kTile / 4);
}
__device__ __forceinline__ int thread_y() {
  return static_cast<int>(threadIdx.x) / (kTile / 4);
}

// C += A^T B over kDepth.
__device__ __forceinline__ void multiply_add(float (&C)[4][4], const float (*s_a)[kStride],
                                             const float (*s_b)[kStride]) {
#pragma unroll 8
  for (int k = 0; k < kDepth; ++k) {
    const float4 a = *reinterpret_cast<const float4*>(&s_a[k][4 * thread_y()]);
    const float4 b = *reinterpret_cast<const float4*>(&s_b[k][4 * thread_x()]);
    const float rows[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      C[i][0] = fmaf(rows[i], b.x, C[i][0]);
      C[i][1] = fmaf(rows[i], b.y, C[i][1]);
      C[i][2] = fmaf(rows[i], b.z, C[i][2]);
      C[i][3] = fmaf(rows[i], b.w, C[i][3]);
    }
  }
}

// sums += A^T weight over kDepth: this thread's share, which sum_of_row() completes.
template <class Weight>
__device__ __forceinline__ void add_to_sums(float (&sums)[4], const float (*s_a)[kStride],
                                            Weight weight) {
#pragma unroll
  for (int k = thread_x(); k < kDepth; k += kTile / 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = fmaf(s_a[k][4 * thread_y() + i], weight(k), sums[i]);
  }
}
__device__ __forceinline__ float sum_of_row(float share) {
  return group_sum<kTile / 4>(share);
}

// ---- kernels ----

// S and z of each chunk by itself. A block: one 64x64 tile of one chunk's S.
template <class Element>
__global__ void __launch_bounds__(kThreads, 2)
    state_kernel(const __grid_constant__ Arguments args) {
  __shared__ __align__(16) Factors s;
  std::int64_t index = blockIdx.x;
  const int column = static_cast<int>(index % args.column_tiles) * kTile;  // of V
  index /= args.column_tiles;
  const int feature = static_cast<int>(index % args.column_tiles) * kTile;  // of K
  index /= args.column_tiles;
  float* state = args.states + index * args.state_size();
  const std::int64_t first_key = index % args.chunks * kChunk;
  const std::int64_t head_index = index / args.chunks;
  const std::int64_t batch = head_index / args.kv_heads;
  const std::int64_t head = head_index % args.kv_heads;
  const auto K = args.k.head<const Element>(batch, head, args.visibility.n_kv);
  const auto V = args.v.head<const Element>(batch, head, args.visibility.n_kv);

  float S[4][4] = {};
  float z[4] = {};
  const std::int64_t end = min(first_key + kChunk, args.visibility.n_kv);
  for (std::int64_t key = first_key; key < end; key += kDepth) {
    __syncthreads();  // the factors before have been read
    load_rows(s.A, K, key, feature, args.head_dim, args.vectors, Feature{args.root_scale});
    load_rows(s.B, V, key, column, args.head_dim, args.vectors, Identity{});
    __syncthreads();
    multiply_add(S, s.A, s.B);
    add_to_sums(z, s.A, [](int) { return 1.0F; });
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float sum = sum_of_row(z[i]);
    const int row = feature + 4 * thread_y() + i;
    const int first = column + 4 * thread_x();
    if (row >= args.head_dim) continue;
    if (first < args.head_dim) {
      *reinterpret_cast<float4*>(state + row * args.head_dim + first) =
          make_float4(S[i][0], S[i][1], S[i][2], S[i][3]);
    }
    if (column == 0 && thread_x() == 0) state[args.head_dim * args.head_dim + row] = sum;
  }
}

// Turns each chunk's state into the sum of those up to it. A thread: four elements of one head's.
__global__ void __launch_bounds__(kThreads) prefix_kernel(const __grid_constant__ Arguments args) {
  constexpr int kBatch = 8;  // loads in flight
  const std::int64_t vectors = args.state_size() / 4;
  const std::int64_t blocks = (vectors + kThreads - 1) / kThreads;  // of a head
  const std::int64_t element = blockIdx.x % blocks * kThreads + threadIdx.x;
  if (element >= vectors) return;
  float4* g_state = reinterpret_cast<float4*>(args.states) +
                    blockIdx.x / blocks * args.chunks * vectors + element;
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  for (std::int64_t first = 0; first < args.chunks; first += kBatch) {
    float4 x[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i < args.chunks) x[i] = g_state[(first + i) * vectors];
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (first + i >= args.chunks) break;
      sum = make_float4(sum.x + x[i].x, sum.y + x[i].y, sum.z + x[i].z, sum.w + x[i].w);
      // Without a mask only the sum of all is read.
      if (args.visibility.causal || first + i + 1 == args.chunks)
        g_state[(first + i) * vectors] = sum;
    }
  }
}

// O of 64 rows and 64 columns.
template <class Element>
__global__ void __launch_bounds__(kThreads, 2)
    output_kernel(const __grid_constant__ Arguments args) {
  __shared__ __align__(16) Factors s;
  __shared__ __align__(16) float s_P[kTile][kStride];  // [key][row]
  __shared__ float s_z[kDepth];
  std::int64_t index = blockIdx.x;
  const int column = static_cast<int>(index % args.column_tiles) * kTile;
  index /= args.column_tiles;
  const std::int64_t first_row = index % args.row_tiles * kTile;
  const std::int64_t head_index = index / args.row_tiles;
  const std::int64_t batch = head_index / args.heads;
  const std::int64_t head = head_index % args.heads;
  const std::int64_t kv_head = head / (args.heads / args.kv_heads);
  const auto Q = args.q.head<const Element>(batch, head, args.visibility.n_q);
  const auto K = args.k.head<const Element>(batch, kv_head, args.visibility.n_kv);
  const auto V = args.v.head<const Element>(batch, kv_head, args.visibility.n_kv);
  const Feature phi{args.root_scale};

  float O[4][4] = {};
  float sums[4] = {};

  // The chunks that every row of the tile sees as a whole: by their state.
  const std::int64_t least = args.visibility.visible_keys(first_row);
  const std::int64_t most =
      args.visibility.visible_keys(min(first_row + kTile, args.visibility.n_q) - 1);
  const std::int64_t whole = least == args.visibility.n_kv ? args.chunks : least / kChunk;
  if (whole > 0) {
    const float* state =
        args.states +
        ((batch * args.kv_heads + kv_head) * args.chunks + whole - 1) * args.state_size();
    const Matrix<const float> S{state, args.head_dim, args.head_dim};
    const float* z = state + args.head_dim * args.head_dim;
    for (int feature = 0; feature < args.head_dim; feature += kDepth) {
      __syncthreads();  // the factors before have been read
      load_transposed(s.A, Q, first_row, feature, args.head_dim, args.vectors, phi);
      load_rows(s.B, S, feature, column, args.head_dim, true, Identity{});
      const int own = feature + static_cast<int>(threadIdx.x);
      if (threadIdx.x < kDepth) s_z[threadIdx.x] = own < args.head_dim ? z[own] : 0.0F;
      __syncthreads();
      multiply_add(O, s.A, s.B);
      add_to_sums(sums, s.A, [&](int k) { return s_z[k]; });
    }
  }

  // The keys behind them, that some row sees: by their products.
  for (std::int64_t first_key = whole * kChunk; first_key < most; first_key += kTile) {
    float P[4][4] = {};
    for (int feature = 0; feature < args.head_dim; feature += kDepth) {
      __syncthreads();  // the factors before, and P, have been read
      load_transposed(s.A, Q, first_row, feature, args.head_dim, args.vectors, phi);
      load_transposed(s.B, K, first_key, feature, args.head_dim, args.vectors, phi);
      __syncthreads();
      multiply_add(P, s.A, s.B);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t seen =
          args.visibility.visible_keys(first_row + 4 * thread_y() + i) - first_key;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int key = 4 * thread_x() + j;
        s_P[key][4 * thread_y() + i] = key < seen ? P[i][j] : 0.0F;
      }
    }
    for (int key = 0; key < kTile; key += kDepth) {
      __syncthreads();  // P has been written, the factors before have been read
      load_rows(s.B, V, first_key + key, column, args.head_dim, args.vectors, Identity{});
      __syncthreads();
      multiply_add(O, s_P + key, s.B);
      add_to_sums(sums, s_P + key, [](int) { return 1.0F; });
    }
  }

  const auto out = args.o.head<Element>(batch, head, args.visibility.n_q);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float sum = sum_of_row(sums[i]);
    const std::int64_t row = first_row + 4 * thread_y() + i;
    if (row >= args.visibility.n_q) continue;
    const bool empty = args.visibility.visible_keys(row) == 0;
    if (args.lse != nullptr && column == 0 && thread_x() == 0) {
      args.lse[head_index * args.visibility.n_q + row] = empty ? -INFINITY : logf(sum);
    }
    const int first = column + 4 * thread_x();
    if (first >= args.head_dim) continue;
    Element* g_row = out.data + row * out.row_stride + first;
#pragma unroll
    for (int j = 0; j < 4; ++j) g_row[j] = from_float<Element>(empty ? 0.0F : O[i][j] / sum);
  }
}

// ---- host ----

struct Kernels {
  void (*state)(Arguments);
  void (*output)(Arguments);
};

Kernels kernels_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16: return {state_kernel<__half>, output_kernel<__half>};
    case Dtype::bf16: return {state_kernel<__nv_bfloat16>, output_kernel<__nv_bfloat16>};
    case Dtype::f32: break;
  }
  return {state_kernel<float>, output_kernel<float>};
}

class Linear final : public SimtImplementation {
 public:
  std::string_view name() const override { return "linear"; }
  std::string_view description() const override {
    return "kernel feature map elu + 1 instead of the softmax; work grows with N";
  }
  Kind kind() const override { return Kind::approximate; }

  std::int64_t workspace_bytes(const Problem& problem,
                               const DeviceInfo& /*device*/) const override {
    const std::int64_t state = problem.head_dim * (problem.head_dim + 1);
    return checked_multiply(problem.batch * problem.kv_heads * chunks(problem), state * 4);
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const std::int64_t size = size_of(problem.dtype);
    const std::int64_t q_bytes = problem.q_elements() * size;
    const std::int64_t kv_bytes = 2 * problem.kv_elements() * size;
    const std::int64_t all = workspace_bytes(problem, device);
    const std::int64_t kept = cache_retention_bytes(device);
    const std::int64_t states = all <= kept ? 0 : all;  // that go through HBM
    const bool causal = problem.mask == Mask::causal;
    const std::int64_t read_states = causal ? states : states / chunks(problem);

    const auto heads = static_cast<double>(problem.batch * problem.heads);
    const auto kv_heads = static_cast<double>(problem.batch * problem.kv_heads);
    const double dim = static_cast<double>(divide_up(problem.head_dim, kTile) * kTile);
    const auto dim_tiles = dim / kTile;  // each block of columns works out all features anew
    const auto depth = static_cast<double>(divide_up(problem.head_dim, kDepth) * kDepth);
    const auto keys = static_cast<double>(divide_up(problem.n_kv, kDepth) * kDepth);
    const double state_rows = static_cast<double>(divide_up(problem.n_q, kTile) * kTile);
    double pairs = 0;  // of a head, by products
    for (std::int64_t row = 0; causal && row < problem.n_q; row += kTile) {
      const std::int64_t least = problem.visible_keys(row);
      const std::int64_t most = problem.visible_keys(std::min(row + kTile, problem.n_q) - 1);
      const std::int64_t first = least == problem.n_kv ? most : least / kChunk * kChunk;
      pairs += static_cast<double>(kTile * divide_up(most - first, kTile) * kTile);
    }
    return std::vector<StepModel>{
        {.name = "state",
         .read_bytes = kv_bytes,
         .write_bytes = states,
         .unit = MatrixUnit::fma_f32,
         .matrix_flops = 2.0 * kv_heads * keys * dim * dim,
         .exps = kv_heads * keys * dim * dim_tiles},
        {.name = "prefix", .read_bytes = states, .write_bytes = read_states},
        {.name = "output",
         .read_bytes = q_bytes + read_states + (causal && kv_bytes > kept ? kv_bytes : 0),
         .write_bytes = q_bytes,
         .unit = MatrixUnit::fma_f32,
         .matrix_flops =
             2.0 * heads * (state_rows * depth * dim + pairs * (depth * dim_tiles + dim)),
         .exps = heads * (state_rows + 2.0 * pairs / kTile) * depth * dim_tiles}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& /*device*/) const override {
    Arguments args{};
    args.q = view_of(operands.q);
    args.k = view_of(operands.k);
    args.v = view_of(operands.v);
    args.o = view_of(operands.o);
    args.lse = operands.lse;
    args.states = static_cast<float*>(workspace);
    args.visibility = visibility_of(problem);
    args.heads = problem.heads;
    args.kv_heads = problem.kv_heads;
    args.chunks = chunks(problem);
    args.row_tiles = divide_up(problem.n_q, kTile);
    args.head_dim = static_cast<int>(problem.head_dim);
    args.column_tiles = static_cast<int>(divide_up(problem.head_dim, kTile));
    args.vectors =
        is_vectorisable(operands.q) && is_vectorisable(operands.k) && is_vectorisable(operands.v);
    args.root_scale = static_cast<float>(std::sqrt(problem.scale));

    const std::int64_t kv_heads = problem.batch * problem.kv_heads;
    const std::int64_t prefix_blocks = divide_up(args.state_size() / 4, kThreads);
    const Kernels kernels = kernels_of(problem.dtype);
    const unsigned state_grid =
        grid_size(name(), kv_heads * args.chunks, args.column_tiles * args.column_tiles);
    const unsigned prefix_grid = grid_size(name(), kv_heads, prefix_blocks);
    const unsigned output_grid =
        grid_size(name(), problem.batch * problem.heads * args.row_tiles, args.column_tiles);
    const auto step = [args](void (*kernel)(Arguments), unsigned blocks) {
      return [=](Stream stream) {
        kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(args);
        CUDA_CHECK(cudaGetLastError());
      };
    };
    Plan plan;
    plan.steps.push_back({"state", step(kernels.state, state_grid)});
    plan.steps.push_back({"prefix", step(prefix_kernel, prefix_grid)});
    plan.steps.push_back({"output", step(kernels.output, output_grid)});
    plan.choices = {{"features", "elu + 1"}, {"chunk", std::to_string(kChunk)}};
    return plan;
  }

 private:
  static std::int64_t chunks(const Problem& problem) { return divide_up(problem.n_kv, kChunk); }
};

}  // namespace

std::unique_ptr<Implementation> make_linear() {
  return std::make_unique<Linear>();
}

}  // namespace flashbench
