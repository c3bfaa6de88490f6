// fused-mma: O = softmax(scale Q K^T) V without ever writing S, on the tensor cores of any GPU from
// sm_80.
//
// FlashAttention-2 (Dao 2023): a thread block owns a tile of query rows, a warp 16 or 32 of them
// with all their keys, so that the softmax of a row stays within four lanes. Blocks of keys stream
// through a ring in shared memory; for each block
//   S = Q K^T              mma.sync, K by ldmatrix
//   m, l, O rescaled       only when a row's maximum grows by more than 2^8: O and l share
//                          the reference m, whatever it is, so O / l is exact
//   P = 2^(S - m)          rounded to the dtype, in the registers of S
//   O += P V               mma.sync, V by ldmatrix.trans
// In base 2 the scale and log2(e) are one factor. Limit: tensor cores by mma.sync, which on Hopper
// run at about 0.6 of the WGMMA rate, and shared-memory reads: a warp of 32 rows reads each K and V
// fragment once for two mma, which needs half of the bandwidth that 16 rows do. docs/mma-notes.md
// has the count and the measurements.
//
// Head dims between the configured ones are padded with zeros in shared memory.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "error.h"
#include "kernels/catalogue.h"
#include "kernels/common/convert.cuh"
#include "kernels/common/cp_async.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/ldmatrix.cuh"
#include "kernels/common/mma_sync.cuh"
#include "kernels/common/softmax.cuh"
#include "traffic.h"

namespace flashbench {
namespace {

constexpr float kSlack = 8.0F;  // log2 of what P may reach before O is rescaled

// ---- configuration ----

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

// The tiles. A kernel's parameter is its row here (nvcc's host stubs cannot take a Config itself).
constexpr Config kConfigs[] = {
    // d  warps row_tiles keys stages blocks_per_sm q_in_registers
    {64, 4, 2, 64, 2, 2, true},
    {96, 4, 2, 64, 2, 2, false},
    {128, 4, 2, 64, 2, 2, false},
    {192, 8, 1, 64, 2, 1, false},
    {256, 8, 1, 64, 2, 1, false},
    // for GPUs with less shared memory than these need: 99 KB on 8.6 and 8.9, 163 KB on 8.0
    {192, 4, 1, 32, 2, 2, false},
    {256, 4, 1, 32, 2, 2, false},
};
constexpr int kConfigCount = static_cast<int>(std::size(kConfigs));

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
  int head_group;  // heads that run side by side, so that their K and V fit the L2 together
  int tiles;       // of query rows in a head
  bool causal;
  float scale_log2;  // scale * log2(e)
  float slack;       // by how much a row's maximum may pass its reference, in units of S
};

// ---- steps ----

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

// ---- kernel ----

template <class Element, int kIndex>
__global__ void __launch_bounds__(kConfigs[kIndex].threads(), kConfigs[kIndex].blocks_per_sm)
    fused_mma_kernel(const __grid_constant__ Arguments args) {
  constexpr Config kConfig = kConfigs[kIndex];
  static_assert(is_valid(kConfig));
  extern __shared__ __align__(128) char s_memory[];  // Q (later O) tile, then stages of K and V

  // Which head and tile: groups of heads one after the other; within a group the longest rows of
  // all heads first.
  const int index = static_cast<int>(blockIdx.x);
  const int group = index / (args.tiles * args.head_group);
  const int group_size = min(args.head_group, args.head_count - group * args.head_group);
  const int in_group = index - group * args.tiles * args.head_group;
  // The same in all lanes; the shuffles tell the compiler, which then keeps what follows in uniform
  // registers.
  const int head_index =
      __shfl_sync(0xffffffffU, group * args.head_group + in_group % group_size, 0);
  const int tile_index = __shfl_sync(0xffffffffU, in_group / group_size, 0);
  const int tile = args.causal ? args.tiles - 1 - tile_index : tile_index;
  const int batch = __shfl_sync(0xffffffffU, head_index / args.heads, 0);
  const int head = head_index - batch * args.heads;
  const int kv_head = __shfl_sync(0xffffffffU, head / args.heads_per_kv_head, 0);
  const std::int64_t first_row = std::int64_t{tile} * kConfig.rows();

  // Row i of the tile sees the keys before diagonal + i, or all. Blocks of keys before what its
  // first row sees are whole; none after what its last row sees is needed.
  const std::int64_t diagonal = args.causal ? first_row + args.n_kv - args.n_q + 1 : args.n_kv;
  const auto blocks_before = [&](std::int64_t keys) {  // whole blocks before a key
    return static_cast<int>(max(std::int64_t{0}, keys) / kConfig.keys);
  };
  const auto blocks_of = [&](int row) {  // blocks of which the tile's row `row` sees a key
    const std::int64_t end = args.causal ? min(diagonal + row, args.n_kv) : args.n_kv;
    return blocks_before(end + kConfig.keys - 1);
  };
  const int whole_blocks = blocks_before(min(diagonal, args.n_kv));
  const int last_row =
      static_cast<int>(min(std::int64_t{kConfig.rows()}, args.n_q - first_row)) - 1;
  const int blocks = blocks_of(last_row);

  const std::uint32_t s_q = shared_address(s_memory);
  const std::uint32_t s_k = s_q + kConfig.rows() * kConfig.row_bytes();
  const std::uint32_t s_v = s_k + kConfig.kv_bytes();
  constexpr std::uint32_t kStageBytes = 2 * kConfig.kv_bytes();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;

  const TileLoader<kConfig, kConfig.keys> k_loader{
      args.k + batch * args.k_stride[0] + kv_head * args.k_stride[2], args.k_stride[1], s_k,
      args.head_dim};
  const TileLoader<kConfig, kConfig.keys> v_loader{
      args.v + batch * args.v_stride[0] + kv_head * args.v_stride[2], args.v_stride[1], s_v,
      args.head_dim};
  const auto load =
      [&](int block) {  // one group a block, empty past the end so that counts stay right
        if (block < blocks) {
          const std::uint32_t s_stage =
              static_cast<std::uint32_t>(block % kConfig.stages) * kStageBytes;
          const std::int64_t first_key = std::int64_t{block} * kConfig.keys;
          k_loader.load(first_key, args.n_kv, s_stage);
          v_loader.load(first_key, args.n_kv, s_stage);
        }
        cp_async_commit();
      };

  {
    const TileLoader<kConfig, kConfig.rows()> q_loader{
        args.q + batch * args.q_stride[0] + head * args.q_stride[2], args.q_stride[1], s_q,
        args.head_dim};
    q_loader.load(first_row, args.n_q, 0);
  }
#pragma unroll
  for (int stage = 0; stage < kConfig.stages - 1; ++stage) load(stage);

  // Q and V: matrices 0, 1 of ldmatrix.x4 are the two halves of rows; K: the two halves of columns.
  const FragmentAddress<kConfig> q_address(s_q + warp * kConfig.warp_rows() * kConfig.row_bytes(),
                                           lane % 16, lane / 16);
  const FragmentAddress<kConfig> k_address(s_k, lane % 8 + lane / 16 * 8, lane / 8 % 2);
  const FragmentAddress<kConfig> v_address(s_v, lane % 16, lane / 16);

  WarpState<kConfig> state;
  QueryFragments<kConfig> r_q;

  const auto await = [&](int block) {
    cp_async_wait<kConfig.stages - 2>();  // this thread's part of the block has landed
    __syncthreads();                      // and everyone's; and all have left the block before it
    load(block + kConfig.stages - 1);     // whose stage this takes
  };
  if constexpr (kConfig.q_in_registers) {
    cp_async_wait<kConfig.stages - 2>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kConfig.row_tiles; ++i) {
#pragma unroll
      for (int k = 0; k < kConfig.head_dim / 16; ++k) ldmatrix_x4(r_q.a[i][k], q_address.at(i, k));
    }
  }

  const int warp_row = warp * kConfig.warp_rows();
  // Blocks that some row of this warp sees; it sits the others out.
  const int warp_blocks = warp_row > last_row ? 0 : blocks_of(warp_row + kConfig.warp_rows() - 1);
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    await(block);
    if (block >= warp_blocks) continue;
    const std::uint32_t s_stage = static_cast<std::uint32_t>(block % kConfig.stages) * kStageBytes;
    Scores<kConfig> S;
    scores<Element, kConfig>(S, q_address, r_q, k_address, s_stage);
    if (block >= whole_blocks) {  // the diagonal and the ragged end
      const std::int64_t first_key = std::int64_t{block} * kConfig.keys;
      mask<kConfig>(S, {static_cast<int>(diagonal - first_key) + warp_row,
                        static_cast<int>(min(args.n_kv - first_key, std::int64_t{kConfig.keys}))});
    }
    rescale<kConfig>(state, S, args.scale_log2, args.slack);
    accumulate<Element, kConfig>(state, S, v_address, s_stage, args.scale_log2);
  }

  cp_async_wait<0>();  // no copy may outlive the block; with no key seen, Q is still in flight
  if (blocks == 0) __syncthreads();  // O is about to take the place of other threads' Q copies
  store<Element, kConfig>(
      state, s_memory, args,
      args.o + batch * args.o_stride[0] + head * args.o_stride[2] + first_row * args.o_stride[1],
      args.lse == nullptr ? nullptr : args.lse + head_index * args.n_q, first_row);
}

// ---- host ----

using Kernel = void (*)(Arguments);

template <class Element, int... kIndex>
Kernel kernel_of(int index, std::integer_sequence<int, kIndex...> /*all*/) {
  static constexpr Kernel kKernels[] = {fused_mma_kernel<Element, kIndex>...};
  return kKernels[index];
}

Kernel kernel_of(int index, Dtype dtype) {
  constexpr auto kAll = std::make_integer_sequence<int, kConfigCount>();
  return dtype == Dtype::f16 ? kernel_of<__half>(index, kAll)
                             : kernel_of<__nv_bfloat16>(index, kAll);
}

// The first that holds the head dim and fits the device's shared memory.
int choose_config(const Problem& problem, const DeviceInfo& device) {
  for (int i = 0; i < kConfigCount; ++i) {
    if (kConfigs[i].head_dim >= problem.head_dim &&
        kConfigs[i].shared_bytes() <= device.shared_memory_per_block) {
      return i;
    }
  }
  throw Error("fused-mma: no tile fits the device's shared memory");
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Heads side by side. Without a mask one: tiles are alike, and one head after the other has least
// in flight. With one, long tiles of several go first: of as many as have their K and V in the L2
// together, in groups of equal size.
std::int64_t choose_head_group(const Problem& problem, const DeviceInfo& device) {
  if (problem.mask == Mask::none) return 1;
  const std::int64_t heads = problem.batch * problem.heads;
  const std::int64_t kv_bytes = 2 * problem.n_kv * problem.head_dim * size_of(problem.dtype);
  const std::int64_t kv_heads = std::max<std::int64_t>(1, cache_retention_bytes(device) / kv_bytes);
  const std::int64_t most = kv_heads * (problem.heads / problem.kv_heads);
  return divide_up(heads, divide_up(heads, most));
}

struct View {
  char* data;
  std::int64_t stride[3];
};

// Byte strides of a tensor whose rows can be copied in 16-byte pieces.
View view_of(const Tensor& tensor, const char* name) {
  const std::int64_t size = size_of(tensor.dtype);
  View view{static_cast<char*>(tensor.data),
            {tensor.stride[0] * size, tensor.stride[1] * size, tensor.stride[2] * size}};
  bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && tensor.stride[3] == 1;
  for (const std::int64_t stride : view.stride) aligned = aligned && stride % 16 == 0;
  if (!aligned) {
    throw Error(std::string("fused-mma: ") + name +
                " must be 16-byte aligned, with strides that are multiples of 8 elements and "
                "head_dim contiguous");
  }
  return view;
}

class FusedMma final : public Implementation {
 public:
  std::string_view name() const override { return "fused-mma"; }
  std::string_view description() const override {
    return "FlashAttention-2 style on tensor cores through mma.sync; f16, bf16, sm_80 and newer";
  }
  DeviceKind device() const override { return DeviceKind::cuda; }
  Kind kind() const override { return Kind::fused; }

  std::optional<std::string> unavailable(const DeviceInfo& device) const override {
    if (device.compute_capability < 80) {
      return "needs compute capability 8.0, this device has " +
             std::to_string(device.compute_capability / 10) + "." +
             std::to_string(device.compute_capability % 10);
    }
    return std::nullopt;
  }

  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    if (const auto reason = unavailable(device)) return reason;
    if (problem.dtype == Dtype::f32) return "tensor cores take f16 and bf16, not f32";
    if (problem.head_dim % 8 != 0)
      return "head dim " + std::to_string(problem.head_dim) + " is not a multiple of 8";
    if (problem.head_dim > 256)
      return "head dim " + std::to_string(problem.head_dim) + " is above 256";
    return std::nullopt;
  }

  Arithmetic arithmetic(const Problem& /*problem*/) const override {
    return {.scores_in_dtype = false,
            .weights_in_dtype = true,
            .weights_normalised = false,
            .tensor_core_sums = true};
  }

  std::int64_t workspace_bytes(const Problem& /*problem*/,
                               const DeviceInfo& /*device*/) const override {
    return 0;
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const Config& config = kConfigs[choose_config(problem, device)];
    const std::int64_t o_bytes = problem.q_elements() * size_of(problem.dtype);
    const FusedWalk walk{config.rows(), device.sm_count};
    const double pairs = executed_pairs(problem, config.warp_rows(), config.keys);
    return std::vector<StepModel>{
        {.name = kStepName,
         .read_bytes = o_bytes + streamed_kv_bytes(problem, device, walk),
         .write_bytes = o_bytes,
         .unit = problem.dtype == Dtype::f16 ? MatrixUnit::tensor_f16 : MatrixUnit::tensor_bf16,
         .matrix_flops = 4.0 * config.head_dim * pairs,
         .exps = pairs}};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* /*workspace*/,
            Device& device) const override {
    const int index = choose_config(problem, device.info());
    const Config& config = kConfigs[index];
    const std::int64_t heads = problem.batch * problem.heads;
    const std::int64_t tiles = divide_up(problem.n_q, config.rows());
    if (heads > std::numeric_limits<int>::max() / tiles) {
      throw Error("fused-mma: more than 2^31 - 1 tiles of query rows");
    }
    const View q = view_of(operands.q, "Q");
    const View k = view_of(operands.k, "K");
    const View v = view_of(operands.v, "V");
    const View o = view_of(operands.o, "O");
    const auto scale_log2 = static_cast<float>(problem.scale * 1.4426950408889634);
    Arguments args{};
    args.q = q.data;
    args.k = k.data;
    args.v = v.data;
    args.o = o.data;
    args.lse = operands.lse;
    std::copy_n(q.stride, 3, args.q_stride);
    std::copy_n(k.stride, 3, args.k_stride);
    std::copy_n(v.stride, 3, args.v_stride);
    std::copy_n(o.stride, 3, args.o_stride);
    args.n_q = problem.n_q;
    args.n_kv = problem.n_kv;
    args.head_dim = static_cast<int>(problem.head_dim);
    args.heads = static_cast<int>(problem.heads);
    args.heads_per_kv_head = static_cast<int>(problem.heads / problem.kv_heads);
    args.head_count = static_cast<int>(heads);
    args.head_group = static_cast<int>(choose_head_group(problem, device.info()));
    args.tiles = static_cast<int>(tiles);
    args.causal = problem.mask == Mask::causal;
    args.scale_log2 = scale_log2;
    args.slack = std::min(kSlack / scale_log2, std::numeric_limits<float>::max());

    const Kernel kernel = kernel_of(index, problem.dtype);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    config.shared_bytes()));
    const auto launch = [=](Stream stream) {
      kernel<<<static_cast<unsigned>(heads * tiles), static_cast<unsigned>(config.threads()),
               static_cast<std::size_t>(config.shared_bytes()),
               static_cast<cudaStream_t>(stream)>>>(args);
      CUDA_CHECK(cudaGetLastError());
    };
    Plan plan;
    plan.steps.push_back({kStepName, launch});
    plan.choices = {{"tile", std::to_string(config.rows()) + "x" + std::to_string(config.keys) +
                                 "x" + std::to_string(config.head_dim)},
                    {"warps", std::to_string(config.warps)},
                    {"stages", std::to_string(config.stages)},
                    {"heads_at_once", std::to_string(args.head_group)}};
    return plan;
  }

 private:
  static constexpr const char* kStepName = "attention";
};

}  // namespace

std::unique_ptr<Implementation> make_fused_mma() {
  return std::make_unique<FusedMma>();
}

}  // namespace flashbench
