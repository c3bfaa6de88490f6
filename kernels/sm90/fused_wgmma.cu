// Fused attention on Hopper: O = softmax(scale Q K^T + mask) V without S ever leaving the chip.
//
// A block owns an SM and takes tiles of 64 x warpgroups rows of Q. For each block of keys j
// (FlashAttention, Dao et al. 2022; FlashAttention-3, Shah et al. 2024; the online softmax of
// Milakov and Gimelshein 2018):
//
//   S = Q K_j^T              wgmma, both operands in shared memory
//   P = 2^(c S - m)          c = scale log2 e; m per row: the reference, a maximum seen
//   l += rowsum P            in float32, unrounded
//   O += P V_j               wgmma, P in registers, rounded to the dtype
//
// and at the end O / l. The product for block j + 1 is issued beside P V_j and the softmax of j + 1
// runs while P V_j does, so tensor cores and exponential units overlap within a warpgroup and
// across warpgroups.
//
// The reference m needs no maximum in the hot loop. It is the row's true maximum after the first
// block and after masked blocks; in the others P may exceed 1, and only a row sum over kSumLimit
// makes the warp compute that block again (mma.sync, from the same shared memory) with the ordinary
// online softmax, which raises m. Scores that jump past the range of 2^x give an infinite sum, so
// they are caught too: the result is exact for every input.
//
// Warps: one loads (TMA into rings of K and V blocks guarded by mbarriers, and the Q of the next
// tile), up to three store O (TMA), and each consumer warpgroup computes 64 rows. Tiles are drawn
// longest first from a counter. Limits: shared-memory bandwidth and power at head_dim >= 128;
// exponentials and issue slots at 64.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>

#include "implementation.h"
#include "kernels/catalogue.h"
#include "kernels/common/convert.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/griddepcontrol.cuh"
#include "kernels/common/ldmatrix.cuh"
#include "kernels/common/mbarrier.cuh"
#include "kernels/common/mma_sync.cuh"
#include "kernels/common/named_barrier.cuh"
#include "kernels/common/setmaxnreg.cuh"
#include "kernels/common/softmax.cuh"
#include "kernels/common/stmatrix.cuh"
#include "kernels/common/tensor_map.h"
#include "kernels/common/tma.cuh"
#include "kernels/common/wgmma.cuh"
#include "kernels/sm90/fused_wgmma_table.h"
#include "traffic.h"

namespace flashbench {
namespace {

constexpr int kWarp = 32;
constexpr int kWarpgroup = 128;
constexpr int kRows = 64;          // of Q a warpgroup, the M of wgmma
constexpr int kColumnBytes = 128;  // one row of a chunk of 64 columns, the width of the swizzle
constexpr int kStoreWarps = 3;     // the producer warpgroup less the loading warp

/// One piece of work as the loading warp announces it: a tile of Q and the blocks [begin, end) of
/// keys.
struct alignas(16) Piece {
  int row;  // first row of Q; negative: no more pieces
  int head;
  int batch;
  int begin, end;
  int split;  // which of the tiles that are split along the keys, or -1
  int part;   // which part of it
};

/// What a warpgroup leaves behind for a part of a split tile. Thread t of the warpgroup owns
/// [..][t].
template <int kHeadDim>
struct Partial {
  float4 O[kHeadDim / 8][kWarpgroup];  // 4 accumulators each, relative to m
  float4 rows[kWarpgroup];  // m and this thread's share of l of its two rows: m0, m1, l0, l1
};

struct Arguments {
  CUtensorMap q, k, v, o;
  int* counters;  // [0]: pieces drawn beyond the first of each block; [1 + split * warpgroups + w]:
                  // parts done. Zero at launch
  void* partials;  // Partial[split tiles][warpgroups][parts]
  float* lse;      // [batch, heads, n_q] or null
  int n_q, n_kv, heads, heads_per_kv;
  int q_tiles;  // tiles of a head
  int whole_tiles,
      pieces;  // tiles done whole; pieces in all, the further tiles giving `parts` each
  int parts;
  int group_heads,
      large_groups;  // heads in groups that share L2; the first groups hold one head more
  float scale_log2;  // scale log2 e
};

/// An entry of the table, for the kernel.
template <int kEntry>
struct TableShape {
  static constexpr Config kConfig = kTable[kEntry];
  static constexpr int kHeadDim = kConfig.head_dim;
  static constexpr int kWarpgroups = kConfig.warpgroups;
  static constexpr int kBlock = kConfig.block;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kBuffers = kConfig.q_buffers;
  static constexpr int kProducerRegisters = kConfig.producer_registers;
  static constexpr int kConsumerRegisters = kConfig.consumer_registers;
  static constexpr bool kOverlap = kConfig.overlap;

  static constexpr int kThreads = (1 + kWarpgroups) * kWarpgroup;
  static constexpr int kChunks = (kHeadDim + 63) / 64;
  static constexpr int kSliceBytes = kChunks * kRows * kColumnBytes;   // Q of a warpgroup
  static constexpr int kBlockBytes = kChunks * kBlock * kColumnBytes;  // K or V of a block

  static_assert(kHeadDim % 16 == 0 && kHeadDim <= 256 && kBlock % 16 == 0 && kBlock <= 256);
  // A launch has 64 Ki registers, a thread's share in steps of 8; setmaxnreg can only pass those
  // on.
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static_assert(kProducerRegisters % 8 == 0 && kProducerRegisters >= 24 &&
                kConsumerRegisters % 8 == 0 && kConsumerRegisters <= 240);
  static_assert(kProducerRegisters + kWarpgroups * kConsumerRegisters <=
                (1 + kWarpgroups) * kLaunchRegisters);
};

template <class Shape>
struct Shared {
  // Chunks of 64 columns one after the other, rows of 128 B, swizzled. O takes the place of its Q.
  alignas(1024) unsigned char q[Shape::kBuffers][Shape::kWarpgroups][Shape::kSliceBytes];
  alignas(1024) unsigned char k[Shape::kStages][Shape::kBlockBytes];
  alignas(1024) unsigned char v[Shape::kStages][Shape::kBlockBytes];
  Piece piece[Shape::kBuffers][Shape::kWarpgroups];
  bool store[Shape::kBuffers][Shape::kWarpgroups];  // whether the warpgroup leaves O
  bool last[Shape::kWarpgroups];  // whether the warpgroup's part of a split tile is the last
  std::uint64_t q_full[Shape::kBuffers][Shape::kWarpgroups];   // Q and tile are there
  std::uint64_t o_full[Shape::kBuffers][Shape::kWarpgroups];   // O has been written over Q
  std::uint64_t q_empty[Shape::kBuffers][Shape::kWarpgroups];  // O has been read by TMA
  std::uint64_t k_full[Shape::kStages], k_empty[Shape::kStages];
  std::uint64_t v_full[Shape::kStages], v_empty[Shape::kStages];
};

/// A position in a ring of slots, with the parity of the phase that its barriers complete next.
template <int kSlots>
struct RingIndex {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// Keys that row `row` of Q sees.
template <bool kCausal>
__device__ int visible_keys(const Arguments& a, int row) {
  return kCausal ? min(max(row + 1 + a.n_kv - a.n_q, 0), a.n_kv) : a.n_kv;
}

/// Blocks of keys that the rows [row, row + rows) see, as far as there are such rows.
template <class Shape, bool kCausal>
__device__ int visible_blocks(const Arguments& a, int row, int rows) {
  if (row >= a.n_q) return 0;
  return (visible_keys<kCausal>(a, min(row + rows, a.n_q) - 1) + Shape::kBlock - 1) / Shape::kBlock;
}

/// Piece `position` of the launch: groups of heads whose K and V stay in L2 together, and within a
/// group the tiles that see the most keys first. The last tiles may come in parts, so that all SMs
/// end together.
template <class Shape, bool kCausal>
__device__ Piece piece_at(const Arguments& a, int position) {
  if (position >= a.pieces) return {-1, 0, 0, 0, 0, -1, 0};
  int split = -1;
  int part = 0;
  if (position >= a.whole_tiles) {
    split = (position - a.whole_tiles) / a.parts;
    part = position - a.whole_tiles - split * a.parts;
    position = a.whole_tiles + split;
  }
  int size = a.group_heads + 1;
  int first = 0;
  if (position >= a.large_groups * size * a.q_tiles) {
    position -= a.large_groups * size * a.q_tiles;
    first = a.large_groups * size;
    size = a.group_heads;
  }
  const int group = position / (size * a.q_tiles);
  position -= group * size * a.q_tiles;
  const int q_tile = position / size;
  const int head = first + group * size + position % size;
  const int row = (kCausal ? a.q_tiles - 1 - q_tile : q_tile) * Shape::kWarpgroups * kRows;
  const int blocks = visible_blocks<Shape, kCausal>(a, row, Shape::kWarpgroups * kRows);
  Piece piece{row, head % a.heads, head / a.heads, 0, blocks, split, part};
  if (split >= 0) {
    piece.begin = static_cast<int>(static_cast<std::int64_t>(blocks) * part / a.parts);
    piece.end = static_cast<int>(static_cast<std::int64_t>(blocks) * (part + 1) / a.parts);
  }
  return piece;
}

// ---- producer ----

template <class Shape>
__device__ void load_box(unsigned char* to, const CUtensorMap& map, int rows, int row, int head,
                         int batch, std::uint32_t barrier) {
#pragma unroll
  for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
    cp_async_bulk_tensor_4d(shared_address(to) + chunk * rows * kColumnBytes, map, chunk * 64, row,
                            head, batch, barrier);
  }
}

/// One thread: draws tiles and keeps the rings full.
template <class Shape, bool kCausal>
__device__ void load(const Arguments& a, Shared<Shape>& shared) {
  RingIndex<Shape::kBuffers> buffer;
  RingIndex<Shape::kStages> k_stage;
  RingIndex<Shape::kStages> v_stage;
  int position = blockIdx.x;
  for (;;) {
    const Piece piece = piece_at<Shape, kCausal>(a, position);
    const int kv_head = piece.head / a.heads_per_kv;
    const auto load_k = [&](int block) {
      mbarrier_wait(shared_address(&shared.k_empty[k_stage.slot]), k_stage.parity ^ 1);
      const std::uint32_t full = shared_address(&shared.k_full[k_stage.slot]);
      mbarrier_arrive_expect_tx(full, Shape::kBlockBytes);
      load_box<Shape>(shared.k[k_stage.slot], a.k, Shape::kBlock, block * Shape::kBlock, kv_head,
                      piece.batch, full);
      k_stage.advance();
    };
    const auto load_v = [&](int block) {
      mbarrier_wait(shared_address(&shared.v_empty[v_stage.slot]), v_stage.parity ^ 1);
      const std::uint32_t full = shared_address(&shared.v_full[v_stage.slot]);
      mbarrier_arrive_expect_tx(full, Shape::kBlockBytes);
      load_box<Shape>(shared.v[v_stage.slot], a.v, Shape::kBlock, block * Shape::kBlock, kv_head,
                      piece.batch, full);
      v_stage.advance();
    };

    if (piece.end > piece.begin) load_k(piece.end - 1);
#pragma unroll 1
    for (int w = 0; w < Shape::kWarpgroups; ++w) {
      mbarrier_wait(shared_address(&shared.q_empty[buffer.slot][w]), buffer.parity ^ 1);
      shared.piece[buffer.slot][w] = piece;
      const std::uint32_t full = shared_address(&shared.q_full[buffer.slot][w]);
      if (piece.row < 0) {
        mbarrier_arrive(full);
      } else {
        mbarrier_arrive_expect_tx(full, Shape::kSliceBytes);
        load_box<Shape>(shared.q[buffer.slot][w], a.q, kRows, piece.row + w * kRows, piece.head,
                        piece.batch, full);
      }
    }
    if (piece.row < 0) return;
    buffer.advance();
#pragma unroll 1
    for (int block = piece.end - 1; block >= piece.begin; --block) {
      if (block > piece.begin) load_k(block - 1);
      load_v(block);
    }
    // No sooner than here: a piece drawn early waits for its SM while the others run ahead, and
    // more heads are in flight than L2 holds. The counter's latency hides behind the blocks in the
    // ring.
    griddepcontrol_wait();  // the counters have been zeroed
    position = static_cast<int>(gridDim.x) + atomicAdd(a.counters, 1);
  }
}

/// One thread of each store warp: sends the O of its warpgroups to global memory and frees their Q
/// slices.
template <class Shape>
__device__ void store(const Arguments& a, Shared<Shape>& shared, int first) {
  if (first >= Shape::kWarpgroups) return;
  RingIndex<Shape::kBuffers> buffer;
  for (;; buffer.advance()) {
#pragma unroll 1
    for (int w = first; w < Shape::kWarpgroups; w += kStoreWarps) {
      mbarrier_wait(shared_address(&shared.q_full[buffer.slot][w]), buffer.parity);
      const Piece piece = shared.piece[buffer.slot][w];
      if (piece.row < 0) return;
      mbarrier_wait(shared_address(&shared.o_full[buffer.slot][w]), buffer.parity);
      if (shared.store[buffer.slot][w]) {
#pragma unroll
        for (int chunk = 0; chunk < Shape::kChunks; ++chunk) {
          cp_async_bulk_tensor_4d(
              a.o, chunk * 64, piece.row + w * kRows, piece.head, piece.batch,
              shared_address(shared.q[buffer.slot][w]) + chunk * kRows * kColumnBytes);
        }
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read();
      }
      mbarrier_arrive(shared_address(&shared.q_empty[buffer.slot][w]));
    }
  }
}

// ---- consumers ----
// S[i], O[i]: accumulator i of a thread, as wgmma.cuh says; row 0 or 1 of the thread's two is (i >>
// 1) & 1.

__device__ constexpr int row_of(int accumulator) {
  return (accumulator >> 1) & 1;
}

/// Issues S = Q K^T. Q: [chunks][64][128 B], K: [chunks][block][128 B], both K-major.
template <class Shape, class Element>
__device__ void issue_scores(float (&S)[Shape::kBlock / 2], std::uint64_t Q, std::uint64_t K) {
#pragma unroll
  for (int step = 0; step < Shape::kHeadDim / 16; ++step) {
    const int chunk = step / 4;
    const int column = step % 4 * 32;
    wgmma_ss<Element>(S, Q + ((chunk * kRows * kColumnBytes + column) >> 4),
                      K + ((chunk * Shape::kBlock * kColumnBytes + column) >> 4), step != 0);
  }
}

/// Issues O += P V. V: [chunks][block][128 B], MN-major.
template <class Shape, class Element>
__device__ void issue_output(float (&O)[Shape::kHeadDim / 2],
                             const std::uint32_t (&P)[Shape::kBlock / 16][4], std::uint64_t V) {
#pragma unroll
  for (int step = 0; step < Shape::kBlock / 16; ++step) {
    wgmma_rs<Element>(O, P[step], V + ((step * 16 * kColumnBytes) >> 4));
  }
}

/// Keeps the compiler from moving the computation of S past this point.
template <int kCount>
__device__ void pin(float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(x[i])::"memory");
}

/// The 16 rows of S that belong to this warp once more, by mma.sync from the same shared memory.
template <class Shape, class Element>
__device__ void recompute_scores(float (&S)[Shape::kBlock / 2], const unsigned char* Q,
                                 const unsigned char* K) {
  const int lane = threadIdx.x % kWarp;
  const int q_row = threadIdx.x % kWarpgroup / kWarp * 16 + lane % 16;
  const int k_row = lane % 8 + lane / 16 * 8;
#pragma unroll
  for (int i = 0; i < Shape::kBlock / 2; ++i) S[i] = 0;
#pragma unroll 1
  for (int step = 0; step < Shape::kHeadDim / 16; ++step) {
    const int chunk = step / 4;
    const int piece = step % 4 * 2;  // of 16 B
    std::uint32_t a[4];
    ldmatrix_x4(a, shared_address(Q) + chunk * kRows * kColumnBytes + q_row * kColumnBytes +
                       ((piece + lane / 16) ^ (q_row & 7)) * 16);
#pragma unroll
    for (int pair = 0; pair < Shape::kBlock / 16; ++pair) {
      std::uint32_t b[4];
      ldmatrix_x4(b, shared_address(K) + chunk * Shape::kBlock * kColumnBytes +
                         (pair * 16 + k_row) * kColumnBytes +
                         ((piece + lane / 8 % 2) ^ (k_row & 7)) * 16);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int first = 8 * pair + 4 * half;
        float d[4] = {S[first], S[first + 1], S[first + 2], S[first + 3]};
        mma_m16n8k16<Element>(d, a, b[2 * half], b[2 * half + 1]);
#pragma unroll
        for (int i = 0; i < 4; ++i) S[first + i] = d[i];
      }
    }
  }
}

/// m and l of a thread's two rows. m = c max S, -infinity before any key; l: this thread's share of
/// the sum.
struct RowState {
  float m[2];
  float l[2];
};

/// S becomes P = 2^(c S - m) with m raised to the true maximum; l is rescaled and grows. factor:
/// what O must be multiplied by.
template <int kCount>
__device__ void online_softmax(float (&S)[kCount], float c, RowState& state, float (&factor)[2]) {
  float base[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float maximum = -INFINITY;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (row_of(i) == r) maximum = fmaxf(maximum, S[i]);
    }
    const float m = fmaxf(state.m[r], group_max<4>(maximum) * c);
    base[r] = m == -INFINITY ? 0.0F : m;  // no key seen yet: any finite number gives P = 0
    factor[r] = exp2_approx(state.m[r] - base[r]);
    state.m[r] = m;
    state.l[r] *= factor[r];
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    S[i] = exp2_approx(fmaf(S[i], c, -base[row_of(i)]));
    state.l[row_of(i)] += S[i];
  }
}

/// What a thread may add to a row's sum in one block before the reference is raised: far from what
/// float16 can hold, and seldom passed by scores of one distribution.
constexpr float kSumLimit = 1024.0F;

/// S becomes P by the reference as it stands. False, and l untouched, when the warp must do the
/// block over.
template <int kCount>
__device__ bool reference_softmax(float (&S)[kCount], float c, RowState& state) {
  float sum[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    S[i] = exp2_approx(fmaf(S[i], c, -state.m[row_of(i)]));
    sum[row_of(i)] += S[i];
  }
  const bool within = sum[0] <= kSumLimit && sum[1] <= kSumLimit;  // false for NaN
  if (!__all_sync(0xffffffffU, within)) return false;
  state.l[0] += sum[0];
  state.l[1] += sum[1];
  return true;
}

template <int kCount>
__device__ void rescale(float (&O)[kCount], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) O[i] *= factor[row_of(i)];
}

template <class Element, int kSteps>
__device__ void pack(std::uint32_t (&P)[kSteps][4], const float (&S)[8 * kSteps]) {
#pragma unroll
  for (int i = 0; i < 4 * kSteps; ++i) P[i / 4][i % 4] = pack2<Element>(S[2 * i], S[2 * i + 1]);
}

/// O / l to the warpgroup's Q slice in shared memory, in the layout of the tensor map.
template <class Shape, class Element>
__device__ void write_output(const float (&O)[Shape::kHeadDim / 2], const float (&inverse)[2],
                             unsigned char* slice) {
  const int lane = threadIdx.x % kWarp;
  const int row = threadIdx.x % kWarpgroup / kWarp * 16 + lane % 16;
#pragma unroll
  for (int step = 0; step < Shape::kHeadDim / 16; ++step) {
    std::uint32_t packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int first = 8 * step + 2 * i;
      packed[i] = pack2<Element>(O[first] * inverse[i & 1], O[first + 1] * inverse[i & 1]);
    }
    const int piece = step % 4 * 2 + lane / 16;
    stmatrix_x4(shared_address(slice) + step / 4 * kRows * kColumnBytes + row * kColumnBytes +
                    (piece ^ (row & 7)) * 16,
                packed);
  }
}

/// Leaves this warpgroup's part of a split tile in global memory. The warpgroup that comes last
/// gets the whole tile's O, m and l instead, and true: summed over the parts in their order, so
/// that launches agree bit for bit.
template <class Shape>
__device__ bool merge_parts(const Arguments& a, Shared<Shape>& shared, const Piece& piece, int w,
                            float (&O)[Shape::kHeadDim / 2], RowState& state) {
  const int thread = threadIdx.x % kWarpgroup;
  const int tile = piece.split * Shape::kWarpgroups + w;
  auto* const partials = static_cast<Partial<Shape::kHeadDim>*>(a.partials) +
                         static_cast<std::int64_t>(tile) * a.parts;
  Partial<Shape::kHeadDim>& mine = partials[piece.part];
#pragma unroll
  for (int i = 0; i < Shape::kHeadDim / 8; ++i) {
    mine.O[i][thread] = make_float4(O[4 * i], O[4 * i + 1], O[4 * i + 2], O[4 * i + 3]);
  }
  mine.rows[thread] = make_float4(state.m[0], state.m[1], state.l[0], state.l[1]);
  __threadfence();
  bar_sync(1 + w, kWarpgroup);  // the whole part is there
  if (thread == 0) {
    griddepcontrol_wait();  // the counters have been zeroed
    shared.last[w] = atomicAdd(&a.counters[1 + tile], 1) == a.parts - 1;
  }
  bar_sync(1 + w, kWarpgroup);  // shared.last is there
  if (!shared.last[w]) return false;
  __threadfence();  // the other parts are visible

  constexpr int kBatch = Shape::kHeadDim > 192 ? 1 : Shape::kHeadDim % 64 != 0 ? 4 : 8;
  state = RowState{{-INFINITY, -INFINITY}, {0, 0}};
#pragma unroll
  for (int i = 0; i < Shape::kHeadDim / 2; ++i) O[i] = 0;
#pragma unroll 1
  for (int part = 0; part < a.parts; ++part) {
    const float4 rows = __ldcg(&partials[part].rows[thread]);
    const float m[2] = {rows.x, rows.y};
    const float l[2] = {rows.z, rows.w};
    float old_factor[2];
    float new_factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float highest = fmaxf(state.m[r], m[r]);
      const float base = highest == -INFINITY ? 0.0F : highest;
      old_factor[r] = exp2_approx(state.m[r] - base);
      new_factor[r] = exp2_approx(m[r] - base);
      state.m[r] = highest;
      state.l[r] = state.l[r] * old_factor[r] + l[r] * new_factor[r];
    }
#pragma unroll
    for (int first = 0; first < Shape::kHeadDim / 8; first += kBatch) {
      float4 batch[kBatch];  // in flight together: the loads' latency is what a merge costs
#pragma unroll
      for (int i = 0; i < kBatch; ++i) batch[i] = __ldcg(&partials[part].O[first + i][thread]);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        float* o = &O[4 * (first + i)];
        o[0] = o[0] * old_factor[0] + batch[i].x * new_factor[0];
        o[1] = o[1] * old_factor[0] + batch[i].y * new_factor[0];
        o[2] = o[2] * old_factor[1] + batch[i].z * new_factor[1];
        o[3] = o[3] * old_factor[1] + batch[i].w * new_factor[1];
      }
    }
  }
  return true;
}

template <class Shape, class Element, bool kCausal>
__device__ void consume(const Arguments& a, Shared<Shape>& shared, int w) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x % kWarpgroup / kWarp;
  const float c = a.scale_log2;
  const auto release = [&](std::uint64_t& empty) {
    if (lane == 0) mbarrier_arrive(shared_address(&empty));
  };
  const auto k_matrix = [&](int slot) {
    return wgmma_descriptor(shared_address(shared.k[slot]), 16, 1024);
  };
  const auto v_matrix = [&](int slot) {
    return wgmma_descriptor(shared_address(shared.v[slot]), Shape::kBlock * kColumnBytes, 1024);
  };

  RingIndex<Shape::kBuffers> buffer;
  RingIndex<Shape::kStages> stage;
  for (;; buffer.advance()) {
    mbarrier_wait(shared_address(&shared.q_full[buffer.slot][w]), buffer.parity);
    const Piece piece = shared.piece[buffer.slot][w];
    if (piece.row < 0) return;
    unsigned char* slice = shared.q[buffer.slot][w];
    const std::uint64_t Q = wgmma_descriptor(shared_address(slice), 16, 1024);

    const int first_row = piece.row + w * kRows;
    const int my_row = first_row + warp * 16 + lane / 4;
    // The blocks that some row of this warpgroup sees, and those that every row sees whole.
    const int end =
        max(min(visible_blocks<Shape, kCausal>(a, first_row, kRows), piece.end), piece.begin);
    const int unmasked = visible_keys<kCausal>(a, first_row) / Shape::kBlock;

    // Blocks that only later rows of the tile see: let them pass.
#pragma unroll 1
    for (int block = piece.end; block > end; --block) {
      mbarrier_wait(shared_address(&shared.k_full[stage.slot]), stage.parity);
      release(shared.k_empty[stage.slot]);
      mbarrier_wait(shared_address(&shared.v_full[stage.slot]), stage.parity);
      release(shared.v_empty[stage.slot]);
      stage.advance();
    }

    RowState state{{-INFINITY, -INFINITY}, {0, 0}};
    float O[Shape::kHeadDim / 2];
#pragma unroll
    for (int i = 0; i < Shape::kHeadDim / 2; ++i) O[i] = 0;

    const auto mask = [&](float(&S)[Shape::kBlock / 2], int block) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int end =
            visible_keys<kCausal>(a, my_row + 8 * r) - block * Shape::kBlock - 2 * (lane & 3);
#pragma unroll
        for (int i = 0; i < Shape::kBlock / 2; ++i) {
          if (row_of(i) == r && 8 * (i >> 2) + (i & 1) >= end) S[i] = -INFINITY;
        }
      }
    };

    if (end > piece.begin) {
      float S[Shape::kBlock / 2];
      std::uint32_t P[Shape::kBlock / 16][4];
      int block = end - 1;

      mbarrier_wait(shared_address(&shared.k_full[stage.slot]), stage.parity);
      wgmma_fence();
      issue_scores<Shape, Element>(S, Q, k_matrix(stage.slot));
      wgmma_commit_group();
      wgmma_wait_group<0>();
      release(shared.k_empty[stage.slot]);
      if (block >= unmasked) mask(S, block);
      float unused[2];
      online_softmax(S, c, state, unused);
      pack<Element>(P, S);

      // S of `block` beside P V of the block before it.
      const auto step = [&](auto masked) {
        const RingIndex<Shape::kStages> before = stage;
        stage.advance();
        const unsigned char* K = shared.k[stage.slot];
        if constexpr (Shape::kOverlap) {
          mbarrier_wait(shared_address(&shared.k_full[stage.slot]), stage.parity);
          wgmma_fence();
          issue_scores<Shape, Element>(S, Q, k_matrix(stage.slot));
          wgmma_commit_group();
          mbarrier_wait(shared_address(&shared.v_full[before.slot]), before.parity);
          wgmma_fence();
          issue_output<Shape, Element>(O, P, v_matrix(before.slot));
          wgmma_commit_group();
          wgmma_wait_group<1>();
        } else {
          mbarrier_wait(shared_address(&shared.v_full[before.slot]), before.parity);
          wgmma_fence();
          issue_output<Shape, Element>(O, P, v_matrix(before.slot));
          mbarrier_wait(shared_address(&shared.k_full[stage.slot]), stage.parity);
          issue_scores<Shape, Element>(S, Q, k_matrix(stage.slot));
          wgmma_commit_group();
          wgmma_wait_group<0>();
          release(shared.v_empty[before.slot]);
        }
        bool raised = false;
        float factor[2] = {1, 1};
        if constexpr (masked) {
          mask(S, block);
          online_softmax(S, c, state, factor);
          raised = true;
        } else if (!reference_softmax(S, c, state)) {
          recompute_scores<Shape, Element>(S, slice, K);
          online_softmax(S, c, state, factor);
          raised = true;
        }
        release(shared.k_empty[stage.slot]);
        if constexpr (Shape::kOverlap) {
          pin(S);  // else the exponentials sink below the wait
          wgmma_wait_group<0>();
          release(shared.v_empty[before.slot]);
        }
        if (raised) rescale(O, factor);
        pack<Element>(P, S);
      };
#pragma unroll 1
      for (--block; block >= max(unmasked, piece.begin); --block) step(std::true_type{});
#pragma unroll 1
      for (; block >= piece.begin; --block) step(std::false_type{});

      mbarrier_wait(shared_address(&shared.v_full[stage.slot]), stage.parity);
      wgmma_fence();
      issue_output<Shape, Element>(O, P, v_matrix(stage.slot));
      wgmma_commit_group();
      wgmma_wait_group<0>();
      release(shared.v_empty[stage.slot]);
      stage.advance();
    }

    const bool store = piece.split < 0 || merge_parts<Shape>(a, shared, piece, w, O, state);
    if (store) {
      float inverse[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float l = group_sum<4>(state.l[r]);
        inverse[r] = l == 0 ? 0.0F : 1.0F / l;  // a row that sees no key is 0
        const int row = my_row + 8 * r;
        if (a.lse != nullptr && lane % 4 == 0 && row < a.n_q) {
          a.lse[(static_cast<std::int64_t>(piece.batch) * a.heads + piece.head) * a.n_q + row] =
              l == 0 ? -INFINITY : (state.m[r] + log2f(l)) * kLn2;
        }
      }
      bar_sync(1 + w, kWarpgroup);  // all four warps have read their Q
      write_output<Shape, Element>(O, inverse, slice);
      fence_proxy_async();
    }
    if (threadIdx.x % kWarpgroup == 0) shared.store[buffer.slot][w] = store;
    mbarrier_arrive(shared_address(&shared.o_full[buffer.slot][w]));
  }
}

// ---- kernel ----

template <class Shape, class Element, bool kCausal>
__global__ __launch_bounds__(Shape::kThreads,
                             1) void fused_wgmma_kernel(const __grid_constant__ Arguments a) {
  using S = Shared<Shape>;
  static_assert(sizeof(S) <= kMaxSharedBytes, "shared memory of an sm_90 block");
  extern __shared__ __align__(1024) unsigned char memory[];
  S& shared = *reinterpret_cast<S*>(memory);

  const int warp = __shfl_sync(0xffffffffU, threadIdx.x / kWarp, 0);
  if (warp == 0 && threadIdx.x == 0) {
    prefetch_tensormap(a.q);
    prefetch_tensormap(a.k);
    prefetch_tensormap(a.v);
    prefetch_tensormap(a.o);
    for (int b = 0; b < Shape::kBuffers; ++b) {
      for (int w = 0; w < Shape::kWarpgroups; ++w) {
        mbarrier_init(shared_address(&shared.q_full[b][w]), 1);
        mbarrier_init(shared_address(&shared.o_full[b][w]), kWarpgroup);
        mbarrier_init(shared_address(&shared.q_empty[b][w]), 1);
      }
    }
    for (int s = 0; s < Shape::kStages; ++s) {
      mbarrier_init(shared_address(&shared.k_full[s]), 1);
      mbarrier_init(shared_address(&shared.v_full[s]), 1);
      mbarrier_init(shared_address(&shared.k_empty[s]), 4 * Shape::kWarpgroups);
      mbarrier_init(shared_address(&shared.v_empty[s]), 4 * Shape::kWarpgroups);
    }
    fence_mbarrier_init();
  }
  __syncthreads();

  if (warp < 4) {
    setmaxnreg_dec<Shape::kProducerRegisters>();
    if (threadIdx.x % kWarp == 0) {
      if (warp == 0) {
        load<Shape, kCausal>(a, shared);
      } else {
        store<Shape>(a, shared, warp - 1);
      }
    }
  } else {
    setmaxnreg_inc<Shape::kConsumerRegisters>();
    consume<Shape, Element, kCausal>(a, shared, warp / 4 - 1);
  }
}

/// Runs before each launch of the kernel above, which need not wait for it to start.
__global__ void zero_counters(int* counters, int count) {
  griddepcontrol_launch_dependents();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x))
    counters[i] = 0;
}

// ---- host ----

using Kernel = void (*)(Arguments);

/// The kernel of table entry kEntry for a dtype and mask.
template <int kEntry>
Kernel kernel_of(Dtype dtype, Mask mask) {
  using Shape = TableShape<kEntry>;
  if (dtype == Dtype::bf16) {
    return mask == Mask::causal ? fused_wgmma_kernel<Shape, __nv_bfloat16, true>
                                : fused_wgmma_kernel<Shape, __nv_bfloat16, false>;
  }
  return mask == Mask::causal ? fused_wgmma_kernel<Shape, __half, true>
                              : fused_wgmma_kernel<Shape, __half, false>;
}

struct Entry {
  Config config;
  int threads;
  std::size_t shared_bytes;
  std::int64_t partial_bytes;
  Kernel (*kernel)(Dtype, Mask);
};

template <int... kEntries>
constexpr auto make_entries(std::integer_sequence<int, kEntries...>) {
  return std::array{Entry{kTable[kEntries], TableShape<kEntries>::kThreads,
                          sizeof(Shared<TableShape<kEntries>>),
                          sizeof(Partial<kTable[kEntries].head_dim>), kernel_of<kEntries>}...};
}

constexpr auto kEntries = make_entries(std::make_integer_sequence<int, std::size(kTable)>{});

/// The narrowest entry that holds the head.
const Entry* choose_entry(const Problem& problem) {
  const Entry* best = nullptr;
  for (const Entry& entry : kEntries) {
    if (entry.config.head_dim < problem.head_dim) continue;
    if (best == nullptr || entry.config.head_dim < best->config.head_dim) best = &entry;
  }
  return best;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// How heads are grouped so that the K and V of the tiles in flight stay in L2. Without a mask
/// tiles are alike, and one head after the other keeps least in flight. With one, long tiles of
/// several heads go before short ones: of as many as fill 0.4 of L2, since Q and O stream through
/// it too. Groups differ by one head at most: a small last group would leave SMs idle.
std::int64_t head_groups(const Problem& problem, const DeviceInfo& device) {
  if (problem.mask == Mask::none) return problem.batch * problem.heads;
  const double bytes = 2.0 * static_cast<double>(problem.kv_elements()) * 2;
  const auto groups = static_cast<std::int64_t>(
      std::ceil(bytes / (0.4 * static_cast<double>(std::max<std::int64_t>(device.l2_bytes, 1)))));
  return std::clamp<std::int64_t>(groups, 1, problem.batch * problem.heads);
}

/// Blocks of keys that warpgroups compute in one head; each costs 64 x block scores.
double computed_blocks(const Problem& problem, const Config& config) {
  double blocks = 0;
  for (std::int64_t row = 0; row < problem.n_q; row += kRows) {
    const std::int64_t last = std::min(row + kRows, problem.n_q) - 1;
    blocks += static_cast<double>(divide_up(problem.visible_keys(last), config.block));
  }
  return blocks;
}

/// How a problem is cut into pieces for the SMs of a device.
struct Schedule {
  std::int64_t q_tiles, tiles;  // of a head, and in all
  std::int64_t whole_tiles;     // tiles done whole; the others come in `parts`
  std::int64_t parts = 1;
  std::int64_t grid;
  std::int64_t counters;
  std::int64_t counters_bytes;  // of the workspace, the partial results follow
  std::int64_t partial_bytes;   // of a warpgroup's part of a tile
  std::int64_t warpgroups;

  Schedule(const Problem& problem, const Entry& entry, const DeviceInfo& device) {
    warpgroups = entry.config.warpgroups;
    q_tiles = divide_up(problem.n_q, warpgroups * kRows);
    tiles = checked_multiply(q_tiles, problem.batch * problem.heads);
    const std::int64_t sms = std::max(device.sm_count, 1);
    // The tiles of the last, partial round, which would leave SMs idle, in parts: as many rounds of
    // parts as that takes, and the merge of one tile's parts. Counted in blocks of keys.
    const std::int64_t rest = tiles % sms;
    const double blocks = static_cast<double>(divide_up(problem.n_kv, entry.config.block));
    // Longest first, causal tiles end together as they are.
    const bool may_split = rest > 0 && (problem.mask == Mask::none || tiles < sms);
    // At 256 columns O leaves no registers to keep loads in flight: a merge waits for each.
    const double merge_blocks = kMergeBlocks * (entry.config.head_dim > 192 ? 8 : 1);
    double best = kWorthwhile * blocks;
    for (std::int64_t p = 2; may_split && p <= kMaxParts; ++p) {
      const double share = blocks / static_cast<double>(p);
      const double cost = static_cast<double>(divide_up(rest * p, sms)) * (share + kPartBlocks) +
                          static_cast<double>(p) * merge_blocks;
      if (share >= kMinBlocks && cost < best) {
        best = cost;
        parts = p;
      }
    }
    whole_tiles = parts > 1 ? tiles - rest : tiles;
    grid = std::min(pieces(), sms);
    counters = 1 + (tiles - whole_tiles) * warpgroups;
    counters_bytes = divide_up(counters * 4, 256) * 256;
    partial_bytes = entry.partial_bytes;
  }

  std::int64_t pieces() const { return whole_tiles + (tiles - whole_tiles) * parts; }
  std::int64_t partials_bytes() const {
    return (tiles - whole_tiles) * parts * warpgroups * partial_bytes;
  }
  std::int64_t workspace_bytes() const { return counters_bytes + partials_bytes(); }

  static constexpr std::int64_t kMaxParts = 128;
  static constexpr double kMinBlocks = 2;     // of a part
  static constexpr double kPartBlocks = 2;    // what a part costs to start and to write
  static constexpr double kMergeBlocks = 2;   // what reading a part costs
  static constexpr double kWorthwhile = 0.9;  // of the cost of whole tiles
};

class FusedWgmma final : public Implementation {
 public:
  std::string_view name() const override { return "fused-wgmma"; }
  std::string_view description() const override {
    return "fused attention for Hopper: TMA, asynchronous warpgroup matrix products, specialised "
           "warps";
  }
  DeviceKind device() const override { return DeviceKind::cuda; }
  Kind kind() const override { return Kind::fused; }

  std::optional<std::string> unavailable(const DeviceInfo& device) const override {
    if (device.compute_capability != 90) {
      return "needs compute capability 9.0 (Hopper), this device has " +
             std::to_string(device.compute_capability / 10) + "." +
             std::to_string(device.compute_capability % 10);
    }
    return std::nullopt;
  }

  std::optional<std::string> unsupported(const Problem& problem,
                                         const DeviceInfo& device) const override {
    if (auto reason = unavailable(device)) return reason;
    if (problem.dtype == Dtype::f32) return "computes f16 and bf16, not f32";
    if (problem.head_dim % 8 != 0 || choose_entry(problem) == nullptr) {
      return "head_dim must be a multiple of 8 up to 256";
    }
    constexpr std::int64_t kLimit = std::int64_t{1} << 30;
    if (problem.n_q >= kLimit || problem.n_kv >= kLimit ||
        static_cast<double>(problem.batch * problem.heads) * static_cast<double>(problem.n_q) /
                kRows >=
            static_cast<double>(kLimit)) {
      return "more than 2^30 rows a head or tiles";
    }
    return std::nullopt;
  }

  Arithmetic arithmetic(const Problem&) const override {
    return {.scores_in_dtype = false,
            .weights_in_dtype = true,
            .weights_normalised = false,
            .tensor_core_sums = true};
  }

  std::int64_t workspace_bytes(const Problem& problem, const DeviceInfo& device) const override {
    return Schedule(problem, *choose_entry(problem), device).workspace_bytes();
  }

  std::optional<std::vector<StepModel>> model(const Problem& problem,
                                              const DeviceInfo& device) const override {
    const Entry& entry = *choose_entry(problem);
    const Config& config = entry.config;
    const FusedWalk walk{config.warpgroups * kRows, device.sm_count};
    const double scores = computed_blocks(problem, config) * kRows * config.block *
                          static_cast<double>(problem.batch * problem.heads);
    StepModel step;
    step.name = "attention";
    // Partial results are read while they are still in L2, but written back in the end.
    step.read_bytes = 2 * problem.q_elements() + streamed_kv_bytes(problem, device, walk);
    step.write_bytes = 2 * problem.q_elements() + Schedule(problem, entry, device).partials_bytes();
    step.unit = problem.dtype == Dtype::bf16 ? MatrixUnit::tensor_bf16 : MatrixUnit::tensor_f16;
    step.matrix_flops = 4 * scores * config.head_dim;
    step.exps = scores;
    return std::vector{step};
  }

  Plan plan(const Problem& problem, const Operands& operands, void* workspace,
            Device& device) const override {
    const Entry& entry = *choose_entry(problem);
    const Config& config = entry.config;
    const Schedule schedule(problem, entry, device.info());
    const std::int64_t heads = problem.batch * problem.heads;
    const std::int64_t groups = head_groups(problem, device.info());

    Arguments a{};
    a.q = encode_tensor_map(operands.q, kRows);
    a.k = encode_tensor_map(operands.k, config.block);
    a.v = encode_tensor_map(operands.v, config.block);
    a.o = encode_tensor_map(operands.o, kRows);
    a.counters = static_cast<int*>(workspace);
    a.partials = static_cast<char*>(workspace) + schedule.counters_bytes;
    a.lse = operands.lse;
    a.n_q = static_cast<int>(problem.n_q);
    a.n_kv = static_cast<int>(problem.n_kv);
    a.heads = static_cast<int>(problem.heads);
    a.heads_per_kv = static_cast<int>(problem.heads / problem.kv_heads);
    a.q_tiles = static_cast<int>(schedule.q_tiles);
    a.whole_tiles = static_cast<int>(schedule.whole_tiles);
    a.pieces = static_cast<int>(schedule.pieces());
    a.parts = static_cast<int>(schedule.parts);
    a.group_heads = static_cast<int>(heads / groups);
    a.large_groups = static_cast<int>(heads % groups);
    a.scale_log2 = static_cast<float>(problem.scale * 1.4426950408889634074);

    const Kernel kernel = entry.kernel(problem.dtype, problem.mask);
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(entry.shared_bytes)));

    Plan plan;
    plan.choices["tile"] = std::to_string(config.warpgroups * kRows) + "x" +
                           std::to_string(config.block) + "x" + std::to_string(config.head_dim);
    if (schedule.parts > 1) {
      plan.choices["split"] = std::to_string(schedule.tiles - schedule.whole_tiles) + " of " +
                              std::to_string(schedule.tiles) + " tiles in " +
                              std::to_string(schedule.parts) + " parts";
    }
    plan.steps.push_back({"attention", [a, entry, kernel, schedule](Stream stream) {
                            const auto cuda_stream = static_cast<cudaStream_t>(stream);
                            zero_counters<<<1, 256, 0, cuda_stream>>>(
                                a.counters, static_cast<int>(schedule.counters));
                            CUDA_CHECK(cudaGetLastError());
                            cudaLaunchAttribute early{};
                            early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
                            early.val.programmaticStreamSerializationAllowed = 1;
                            cudaLaunchConfig_t launch{};
                            launch.gridDim = dim3(static_cast<unsigned>(schedule.grid));
                            launch.blockDim = dim3(static_cast<unsigned>(entry.threads));
                            launch.dynamicSmemBytes = entry.shared_bytes;
                            launch.stream = cuda_stream;
                            launch.attrs = &early;
                            launch.numAttrs = 1;
                            CUDA_CHECK(cudaLaunchKernelEx(&launch, kernel, a));
                          }});
    return plan;
  }
};

}  // namespace

std::unique_ptr<Implementation> make_fused_wgmma() {
  return std::make_unique<FusedWgmma>();
}

}  // namespace flashbench
