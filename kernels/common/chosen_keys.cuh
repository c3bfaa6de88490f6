#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/common/cuda_check.h"
#include "kernels/common/mma_tile.cuh"

// Softmax attention of 64 query rows over chosen keys only, by the steps of mma_tile.cuh: what the
// approximations that leave keys out have in common. One says which keys by a class
//
//   struct Keys {
//     int blocks;                                        // of keys, that the tile visits
//     __device__ std::int64_t first(int block) const;    // key of a block; all 32 lanes call
//     __device__ KeyRange seen(std::int64_t row) const;  // of the visited ones, that a row sees
//   };

namespace flashbench::mma {

constexpr int kChosenRows = 64;
constexpr Config kChosenConfigs[] = {
    // d  warps row_tiles keys stages blocks_per_sm q_in_registers
    {64, 4, 1, 64, 2, 3, false},
    {128, 4, 1, 64, 2, 2, false},
    {256, 4, 1, 32, 2, 2, false},
};

// The first of kChosenConfigs that holds the head dim.
inline int chosen_config(std::int64_t head_dim) {
  return head_dim <= 64 ? 0 : head_dim <= 128 ? 1 : 2;
}

// Keys [from, to).
struct KeyRange {
  std::int64_t from, to;
};

// Masks what this thread's rows do not see of a block of keys.
template <Config kConfig>
__device__ __forceinline__ void hide(Scores<kConfig>& S,
                                     const KeyRange (&seen)[2 * kConfig.row_tiles],
                                     std::int64_t first_key) {
  constexpr std::int64_t kKeys = kConfig.keys;
  bool whole = true;
#pragma unroll
  for (int r = 0; r < 2 * kConfig.row_tiles; ++r) {
    whole = whole && seen[r].from <= first_key && first_key + kKeys <= seen[r].to;
  }
  if (__all_sync(0xffffffffU, whole)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int r = 0; r < 2 * kConfig.row_tiles; ++r) {
    const int from = static_cast<int>(min(max(seen[r].from - first_key, std::int64_t{0}), kKeys));
    const int to = static_cast<int>(min(max(seen[r].to - first_key, std::int64_t{0}), kKeys));
#pragma unroll
    for (int n = 0; n < kConfig.keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int key = 8 * n + lane % 4 * 2 + e;
        if (key < from || key >= to) S[r / 2][n][2 * (r % 2) + e] = -INFINITY;
      }
    }
  }
}

// The whole of a thread block's work; s_memory: kConfig.shared_bytes().
template <class Element, Config kConfig, class Keys>
__device__ __forceinline__ void attend(const Arguments& args, const Place& place, const Keys& keys,
                                       char* s_memory) {
  static_assert(is_valid(kConfig) && kConfig.rows() == kChosenRows && !kConfig.q_in_registers);
  constexpr std::uint32_t kStageBytes = 2 * kConfig.kv_bytes();
  const std::uint32_t s_q = shared_address(s_memory);  // Q (later O) tile, then stages of K and V
  const std::uint32_t s_k = s_q + kConfig.rows() * kConfig.row_bytes();
  const std::uint32_t s_v = s_k + kConfig.kv_bytes();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first_row = std::int64_t{place.tile} * kConfig.rows();

  const TileLoader<kConfig, kConfig.rows()> q_loader{
      args.q + place.batch * args.q_stride[0] + place.head * args.q_stride[2], args.q_stride[1],
      s_q, args.head_dim};
  const TileLoader<kConfig, kConfig.keys> k_loader{
      args.k + place.batch * args.k_stride[0] + place.kv_head * args.k_stride[2], args.k_stride[1],
      s_k, args.head_dim};
  const TileLoader<kConfig, kConfig.keys> v_loader{
      args.v + place.batch * args.v_stride[0] + place.kv_head * args.v_stride[2], args.v_stride[1],
      s_v, args.head_dim};
  const auto stage_of = [](int block) {
    return static_cast<std::uint32_t>(block % kConfig.stages) * kStageBytes;
  };
  const auto load = [&](int block) {  // one group a block, empty past the end: counts stay right
    if (block < keys.blocks) {
      k_loader.load(keys.first(block), args.n_kv, stage_of(block));
      v_loader.load(keys.first(block), args.n_kv, stage_of(block));
    }
    cp_async_commit();
  };
  q_loader.load(first_row, args.n_q, 0);
#pragma unroll
  for (int stage = 0; stage < kConfig.stages - 1; ++stage) load(stage);

  // Q and V: matrices 0, 1 of ldmatrix.x4 are the two halves of rows; K: the two halves of columns.
  const FragmentAddress<kConfig> q_address(s_q + warp * kConfig.warp_rows() * kConfig.row_bytes(),
                                           lane % 16, lane / 16);
  const FragmentAddress<kConfig> k_address(s_k, lane % 8 + lane / 16 * 8, lane / 8 % 2);
  const FragmentAddress<kConfig> v_address(s_v, lane % 16, lane / 16);
  KeyRange seen[2 * kConfig.row_tiles];  // of this thread's rows
#pragma unroll
  for (int r = 0; r < 2 * kConfig.row_tiles; ++r) {
    seen[r] = keys.seen(first_row + warp * kConfig.warp_rows() + r / 2 * 16 + lane / 4 + r % 2 * 8);
  }

  WarpState<kConfig> state;
  QueryFragments<kConfig> r_q;  // unused: Q stays in shared memory
#pragma unroll 1
  for (int block = 0; block < keys.blocks; ++block) {
    cp_async_wait<kConfig.stages - 2>();  // this thread's part of the block has landed
    __syncthreads();                      // and everyone's; and all have left the block before it
    load(block + kConfig.stages - 1);     // whose stage this takes
    Scores<kConfig> S;
    scores<Element, kConfig>(S, q_address, r_q, k_address, stage_of(block));
    hide<kConfig>(S, seen, keys.first(block));
    rescale<kConfig>(state, S, args.scale_log2, args.slack);
    accumulate<Element, kConfig>(state, S, v_address, stage_of(block), args.scale_log2);
  }

  cp_async_wait<0>();  // no copy may outlive the block; with no key seen, Q is still in flight
  if (keys.blocks == 0) __syncthreads();  // O takes the place of other threads' Q copies
  store<Element, kConfig>(state, s_memory, args,
                          args.o + place.batch * args.o_stride[0] + place.head * args.o_stride[2] +
                              first_row * args.o_stride[1],
                          args.lse == nullptr ? nullptr : args.lse + place.head_index * args.n_q,
                          first_row);
}

// A step that launches `kernel`, made for kChosenConfigs[index], on every tile of `args`, which are
// its first argument.
template <class... Rest>
auto chosen_keys_step(void (*kernel)(Arguments, Rest...), int index, const Arguments& args,
                      Rest... rest) {
  const Config& config = kChosenConfigs[index];
  CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  config.shared_bytes()));
  return [=](void* stream) {
    kernel<<<static_cast<unsigned>(args.head_count * args.tiles),
             static_cast<unsigned>(config.threads()),
             static_cast<std::size_t>(config.shared_bytes()), static_cast<cudaStream_t>(stream)>>>(
        args, rest...);
    CUDA_CHECK(cudaGetLastError());
  };
}

}  // namespace flashbench::mma
