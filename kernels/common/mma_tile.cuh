#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "error.h"
#include "implementation.h"
#include "kernels/common/convert.cuh"
#include "kernels/common/cp_async.cuh"
#include "kernels/common/launch_size.h"
#include "kernels/common/ldmatrix.cuh"
#include "kernels/common/mma_sync.cuh"
#include "kernels/common/softmax.cuh"
#include "tensor.h"

// The steps of tiled attention through mma.sync, for f16 and bf16 from sm_80 on: a thread block
// owns a tile of query rows, a warp 16 or 32 of them with all their keys, so that the softmax of a
// row stays within four lanes. Blocks of keys stream through a ring in shared memory. Head dims
// between the configured ones are padded with zeros in shared memory. Which blocks a tile visits
// and which of their keys a row sees is the kernel's own business.

namespace flashbench::mma {

constexpr float kSlack = 8.0F;  // log2 of what P may reach before O is rescaled

struct Config {
  int head_dim;       // padded; the kernel serves every multiple of 8 up to it
  int warps;          // of a thread block
  int row_tiles;      // 16-row tiles of a warp
  int keys;           // of a block of K and V
  int stages;         // of the K and V ring
  int blocks_per_sm;  // aimed at: caps the registers
  bool q_in_registers;

  constexpr int threads() const { return 32 * warps; }
  constexpr int warp_rows() const { return 16 * row_tiles; }
  constexpr int rows() const { return warps * warp_rows(); }
  constexpr int row_bytes() const { return 2 * head_dim; }
  constexpr int kv_bytes() const { return keys * row_bytes(); }
  constexpr int shared_bytes() const { return rows() * row_bytes() + 2 * stages * kv_bytes(); }
};

constexpr bool is_valid(const Config& c) {
  return c.head_dim % 32 == 0 && c.keys % 16 == 0 && c.stages >= 2 && c.threads() <= 1024 &&
         c.shared_bytes() * c.blocks_per_sm <= 227 * 1024 &&
         // O, S and, where it stays, Q must leave room in a thread's registers
         c.row_tiles * (c.head_dim / 2 + c.keys / 2 + (c.q_in_registers ? c.head_dim / 4 : 0)) <=
             224;
}

// Tiles in shared memory are rows of 16-byte chunks. ldmatrix reads eight rows at one column, so
// chunks are permuted within a row to put those on different banks: among eight where a row is a
// multiple of 128 bytes, else (row = 64 mod 128 bytes; two neighbouring rows cover the banks) among
// four by every second row.
template <Config kConfig>
struct Layout {
  static constexpr int kChunks = kConfig.head_dim / 8;
  static constexpr int kPermuted = kChunks % 8 == 0 ? 8 : 4;

  static __device__ constexpr int swizzle(int row) {
    return kPermuted == 8 ? row & 7 : (row >> 1) & 3;
  }
  static __device__ constexpr int offset(int row, int chunk) {
    return row * kConfig.row_bytes() + ((chunk ^ swizzle(row)) * 16);
  }
};
struct Arguments {
  const char* q;  // [batch, n_q, heads, head_dim], as its strides say
  const char* k;  // [batch, n_kv, kv_heads, head_dim]
  const char* v;  // as k
  char* o;        // as q
  float* lse;     // [batch, heads, n_q] or null
  std::int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];  // bytes: batch, row, head
  std::int64_t n_q, n_kv;
  int head_dim;
  int heads, heads_per_kv_head;
  int head_count;  // batch * heads
  int head_group;  // heads that run side by side
  int tiles;       // of query rows in a head
  bool causal;
  float scale_log2;  // scale * log2(e)
  float slack;       // by how much a row's maximum may pass its reference, in units of S
};

// ---- steps ----

// The tile of a thread block.
struct Place {
  int head_index;  // among all batches' query heads
  int batch, head, kv_head;
  int tile;
};

// Groups of heads one after the other; within a group the longest rows of all heads first.
__device__ __forceinline__ Place find_place(const Arguments& args) {
  Place place;
  const int index = static_cast<int>(blockIdx.x);
  const int group = index / (args.tiles * args.head_group);
  const int group_size = min(args.head_group, args.head_count - group * args.head_group);
  const int in_group = index - group * args.tiles * args.head_group;
  // The same in all lanes; the shuffles tell the compiler, which then keeps what follows in uniform
  // registers.
  place.head_index = __shfl_sync(0xffffffffU, group * args.head_group + in_group % group_size, 0);
  const int tile_index = __shfl_sync(0xffffffffU, in_group / group_size, 0);
  place.tile = args.causal ? args.tiles - 1 - tile_index : tile_index;
  place.batch = __shfl_sync(0xffffffffU, place.head_index / args.heads, 0);
  place.head = place.head_index - place.batch * args.heads;
  place.kv_head = __shfl_sync(0xffffffffU, place.head / args.heads_per_kv_head, 0);
  return place;
}

// Copies rows [first, first + kRows) of a global tile into shared memory, asynchronously. Rows at
// or beyond `rows` and columns at or beyond head_dim become zero.
template <Config kConfig, int kRows>
struct TileLoader {
  using L = Layout<kConfig>;
  // Lanes side by side on a row: the largest power of two that divides its chunks, so that a thread
  // keeps its swizzled column and every offset below is a constant.
  static constexpr int kLanes = std::min(L::kChunks & -L::kChunks, kConfig.threads() / 8);
  static constexpr int kRowStep = kConfig.threads() / kLanes;
  static constexpr int kColumns = L::kChunks / kLanes;
  static_assert(kRowStep % 8 == 0 && kRows % kRowStep == 0);

  const char* g_tile;  // row 0, column 0
  std::int64_t row_stride;
  std::uint32_t s_tile;
  int head_dim;

  __device__ void load(std::int64_t first, std::int64_t rows, std::uint32_t s_offset) const {
    // Opaque, so that the offsets are worked out anew for each block: kept, they would take
    // registers from O and S.
    int thread = static_cast<int>(threadIdx.x);
    asm volatile("" : "+r"(thread));
    const int row = thread / kLanes;
    const int chunk = thread % kLanes;
    const char* g_row = g_tile + (first + row) * row_stride + chunk * 16;
    const std::uint32_t s_row =
        s_tile + s_offset + static_cast<std::uint32_t>(L::offset(row, chunk));
    const int left = static_cast<int>(min(rows - first, std::int64_t{kRows}));
#pragma unroll
    for (int i = 0; i < kRows / kRowStep; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const bool exists = row + i * kRowStep < left && (chunk + j * kLanes) * 8 < head_dim;
        cp_async_16(s_row + static_cast<std::uint32_t>(i * kRowStep * kConfig.row_bytes() +
                                                       j * kLanes * 16),
                    g_row + j * kLanes * 16, exists ? 16 : 0);
      }
      g_row += kRowStep * row_stride;
    }
  }
};

// The address for ldmatrix of this lane's 16-byte row in a 16x16 block of a tile. Only the permuted
// bits of the chunk depend on the lane, and tiles start at multiples of 128 bytes: so from the
// address within block (0, 0) an exclusive or with a constant and the addition of a constant reach
// every block.
template <Config kConfig>
struct FragmentAddress {
  using L = Layout<kConfig>;
  static constexpr int kCount = L::kPermuted / 2;  // blocks across the permuted chunks
  std::uint32_t address;

  // lane_row in [0, 16) and lane_chunk in {0, 1}: the place of this lane's row in a block
  __device__ FragmentAddress(std::uint32_t s_tile, int lane_row, int lane_chunk)
      : address(s_tile + static_cast<std::uint32_t>(L::offset(lane_row, lane_chunk))) {}

  // of the block at row 16 r, column 16 c; r and c known at compile time
  __device__ std::uint32_t at(int r, int c, std::uint32_t s_stage = 0) const {
    return ((address + s_stage) ^ static_cast<std::uint32_t>(c % kCount * 32)) +
           static_cast<std::uint32_t>(r * 16 * kConfig.row_bytes() +
                                      c / kCount * L::kPermuted * 16);
  }
};

// What a warp keeps of its rows. Row 2 i + j of a thread is row lane / 4 + 8 j of 16-row tile i; a
// thread has columns 2 (lane % 4) and the next of each group of eight.
template <Config kConfig>
struct WarpState {
  float O[kConfig.row_tiles][kConfig.head_dim / 8][4];
  float m[2 * kConfig.row_tiles];  // reference of the exponent, in units of S; the same in the four
                                   // lanes
  float l[2 * kConfig.row_tiles];  // this thread's part of the sum of P

  __device__ WarpState() {
#pragma unroll
    for (int i = 0; i < kConfig.row_tiles; ++i) {
#pragma unroll
      for (int n = 0; n < kConfig.head_dim / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) O[i][n][e] = 0.0F;
      }
    }
#pragma unroll
    for (int r = 0; r < 2 * kConfig.row_tiles; ++r) {
      m[r] = -INFINITY;
      l[r] = 0.0F;
    }
  }
};

template <Config kConfig>
using Scores = float[kConfig.row_tiles][kConfig.keys / 8][4];

template <Config kConfig>
struct QueryFragments {
  std::uint32_t a[kConfig.row_tiles][kConfig.head_dim / 16][4];
};

// S = Q K^T of this warp's rows and one block of keys.
template <class Element, Config kConfig>
__device__ __forceinline__ void scores(Scores<kConfig>& S, const FragmentAddress<kConfig>& s_q,
                                       const QueryFragments<kConfig>& r_q,
                                       const FragmentAddress<kConfig>& s_k, std::uint32_t s_stage) {
#pragma unroll
  for (int i = 0; i < kConfig.row_tiles; ++i) {
#pragma unroll
    for (int n = 0; n < kConfig.keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) S[i][n][e] = 0.0F;
    }
  }
#pragma unroll
  for (int k = 0; k < kConfig.head_dim / 16; ++k) {
    std::uint32_t a[kConfig.row_tiles][4];
#pragma unroll
    for (int i = 0; i < kConfig.row_tiles; ++i) {
      if constexpr (kConfig.q_in_registers) {
#pragma unroll
        for (int e = 0; e < 4; ++e) a[i][e] = r_q.a[i][k][e];
      } else {
        ldmatrix_x4(a[i], s_q.at(i, k));
      }
    }
#pragma unroll
    for (int n = 0; n < kConfig.keys / 16; ++n) {
      std::uint32_t b[4];  // keys 16 n..+7 and +8..+15, two halves of k each
      ldmatrix_x4(b, s_k.at(n, k, s_stage));
#pragma unroll
      for (int i = 0; i < kConfig.row_tiles; ++i) {
        mma_m16n8k16<Element>(S[i][2 * n], a[i], b[0], b[1]);
        mma_m16n8k16<Element>(S[i][2 * n + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// What a warp sees of a block: its row i the keys before min(diagonal + i, end), counted from the
// block's first.
struct Sight {
  int diagonal;
  int end;
};

template <Config kConfig>
__device__ __forceinline__ void mask(Scores<kConfig>& S, Sight sight) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int r = 0; r < 2 * kConfig.row_tiles; ++r) {
    const int limit = min(sight.diagonal + r / 2 * 16 + lane / 4 + r % 2 * 8, sight.end);
#pragma unroll
    for (int n = 0; n < kConfig.keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (8 * n + lane % 4 * 2 + e >= limit) S[r / 2][n][2 * (r % 2) + e] = -INFINITY;
      }
    }
  }
}

// The subtrahend of the exponent; 0 where no key has been seen yet, whose weights 2^-infinity are 0
// then.
__device__ __forceinline__ float reference(float m, float scale_log2) {
  return m == -INFINITY ? 0.0F : m * scale_log2;
}

// Moves the references m up to the block's maxima, and O and l with them, when some row of the warp
// has grown by more than the slack over its reference: P stays below 2^kSlack, which every dtype
// holds.
template <Config kConfig>
__device__ __forceinline__ void rescale(WarpState<kConfig>& state, const Scores<kConfig>& S,
                                        float scale_log2, float slack) {
  constexpr int kRowsOfThread = 2 * kConfig.row_tiles;
  float block_max[kRowsOfThread];
  bool grown = false;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    block_max[r] = S[r / 2][0][2 * (r % 2)];
#pragma unroll
    for (int n = 0; n < kConfig.keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        block_max[r] = fmaxf(block_max[r], S[r / 2][n][2 * (r % 2) + e]);
      }
    }
    grown = grown || block_max[r] > state.m[r] + slack;
  }
  if (!__any_sync(0xffffffffU, grown)) return;
#pragma unroll
  for (int r = 0; r < kRowsOfThread; ++r) {
    const float m = fmaxf(state.m[r], group_max<4>(block_max[r]));
    const float factor = exp2_approx(fmaf(state.m[r], scale_log2, -reference(m, scale_log2)));
    state.m[r] = m;
    state.l[r] *= factor;
#pragma unroll
    for (int n = 0; n < kConfig.head_dim / 8; ++n) {
      state.O[r / 2][n][2 * (r % 2)] *= factor;
      state.O[r / 2][n][2 * (r % 2) + 1] *= factor;
    }
  }
}

// P = 2^(S - m), l += row sums of P, O += P V: sixteen keys at a time, so that the exponentials of
// the next sixteen can hide behind these products.
template <class Element, Config kConfig>
__device__ __forceinline__ void accumulate(WarpState<kConfig>& state, const Scores<kConfig>& S,
                                           const FragmentAddress<kConfig>& s_v,
                                           std::uint32_t s_stage, float scale_log2) {
  float subtrahend[2 * kConfig.row_tiles];
#pragma unroll
  for (int r = 0; r < 2 * kConfig.row_tiles; ++r) subtrahend[r] = reference(state.m[r], scale_log2);
#pragma unroll
  for (int k = 0; k < kConfig.keys / 16; ++k) {
    std::uint32_t P[kConfig.row_tiles][4];
#pragma unroll
    for (int i = 0; i < kConfig.row_tiles; ++i) {
#pragma unroll
      for (int f = 0; f < 4; ++f) {  // register f of the A fragment: row half f % 2, key half f / 2
        const int r = 2 * i + f % 2;
        const float* pair = &S[i][2 * k + f / 2][2 * (f % 2)];
        const float p0 = exp2_approx(fmaf(pair[0], scale_log2, -subtrahend[r]));
        const float p1 = exp2_approx(fmaf(pair[1], scale_log2, -subtrahend[r]));
        state.l[r] += p0 + p1;
        P[i][f] = pack2<Element>(p0, p1);
      }
    }
#pragma unroll
    for (int n = 0; n < kConfig.head_dim / 16; ++n) {
      std::uint32_t b[4];  // columns 16 n..+7 and +8..+15, two halves of the sixteen keys each
      ldmatrix_x4_trans(b, s_v.at(k, n, s_stage));
#pragma unroll
      for (int i = 0; i < kConfig.row_tiles; ++i) {
        mma_m16n8k16<Element>(state.O[i][2 * n], P[i], b[0], b[1]);
        mma_m16n8k16<Element>(state.O[i][2 * n + 1], P[i], b[2], b[3]);
      }
    }
  }
}

// O / l to global memory through the warp's own rows of the Q tile, and the log-sum-exp.
template <class Element, Config kConfig>
__device__ __forceinline__ void store(WarpState<kConfig>& state, char* s_tile,
                                      const Arguments& args, char* g_o, float* g_lse,
                                      std::int64_t first_row) {
  using L = Layout<kConfig>;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kConfig.warp_rows();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();  // the warp has read its Q rows for the last time
#pragma unroll
  for (int r = 0; r < 2 * kConfig.row_tiles; ++r) {
    const int row = warp_row + r / 2 * 16 + lane / 4 + r % 2 * 8;
    const float l = group_sum<4>(state.l[r]);
    const float inverse = l == 0.0F ? 0.0F : __fdividef(1.0F, l);  // no key seen: 0. NaN stays NaN.
#pragma unroll
    for (int n = 0; n < kConfig.head_dim / 8; ++n) {
      const float* pair = &state.O[r / 2][n][2 * (r % 2)];
      *reinterpret_cast<std::uint32_t*>(s_tile + L::offset(row, n) + lane % 4 * 4) =
          pack2<Element>(pair[0] * inverse, pair[1] * inverse);
    }
    if (g_lse != nullptr && lane % 4 == 0 && first_row + row < args.n_q) {
      g_lse[first_row + row] =
          l == 0.0F ? -INFINITY : (fmaf(state.m[r], args.scale_log2, log2f(l)))*kLn2;
    }
  }
  __syncwarp();
  for (int c = lane; c < kConfig.warp_rows() * L::kChunks; c += 32) {
    const int row = warp_row + c / L::kChunks;
    const int chunk = c % L::kChunks;
    if (first_row + row < args.n_q && chunk * 8 < args.head_dim) {
      *reinterpret_cast<uint4*>(g_o + row * args.o_stride[1] + chunk * 16) =
          *reinterpret_cast<const uint4*>(s_tile + L::offset(row, chunk));
    }
  }
}
// ---- host ----

inline MatrixUnit tensor_unit(Dtype dtype) {
  return dtype == Dtype::f16 ? MatrixUnit::tensor_f16 : MatrixUnit::tensor_bf16;
}

// Byte strides of a tensor whose rows can be copied in 16-byte pieces. `what`: for the message.
inline void byte_strides(const Tensor& tensor, const std::string& what, std::int64_t (&stride)[3]) {
  bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && tensor.stride[3] == 1;
  for (std::size_t i = 0; i < 3; ++i) {
    stride[i] = tensor.stride[i] * size_of(tensor.dtype);
    aligned = aligned && stride[i] % 16 == 0;
  }
  if (!aligned) {
    throw Error(what +
                " must be 16-byte aligned, with strides that are multiples of 8 elements and "
                "head_dim contiguous");
  }
}

// The arguments of the implementation `name` for tiles of `tile_rows` query rows. Throws Error
// where a tensor is not aligned, or the tiles of all heads do not fit a grid.
inline Arguments make_arguments(const Problem& problem, const Operands& operands, int tile_rows,
                                const std::string& name) {
  const std::int64_t tiles = (problem.n_q + tile_rows - 1) / tile_rows;
  if (problem.batch * problem.heads > std::numeric_limits<int>::max() / tiles) {
    throw Error(name + ": more than 2^31 - 1 tiles of query rows");
  }
  Arguments args{};
  args.q = static_cast<const char*>(operands.q.data);
  args.k = static_cast<const char*>(operands.k.data);
  args.v = static_cast<const char*>(operands.v.data);
  args.o = static_cast<char*>(operands.o.data);
  args.lse = operands.lse;
  byte_strides(operands.q, name + ": Q", args.q_stride);
  byte_strides(operands.k, name + ": K", args.k_stride);
  byte_strides(operands.v, name + ": V", args.v_stride);
  byte_strides(operands.o, name + ": O", args.o_stride);
  args.n_q = problem.n_q;
  args.n_kv = problem.n_kv;
  args.head_dim = static_cast<int>(problem.head_dim);
  args.heads = static_cast<int>(problem.heads);
  args.heads_per_kv_head = static_cast<int>(problem.heads / problem.kv_heads);
  args.head_count = static_cast<int>(problem.batch * problem.heads);
  args.head_group = 1;
  args.tiles = static_cast<int>(tiles);
  args.causal = problem.mask == Mask::causal;
  args.scale_log2 = static_cast<float>(problem.scale * 1.4426950408889634);
  args.slack = std::min(kSlack / args.scale_log2, std::numeric_limits<float>::max());
  return args;
}

}  // namespace flashbench::mma
