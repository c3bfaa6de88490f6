#include "traffic.h"

#include <gtest/gtest.h>

namespace flashbench {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// A device whose cache keeps 48 MiB of operands from one use to the next.
DeviceInfo device() {
  DeviceInfo info;
  info.l2_bytes = 64 * kMiB;
  return info;
}

Problem problem(std::int64_t heads, std::int64_t n, Mask mask, std::int64_t kv_heads = 0) {
  return {.batch = 1,
          .heads = heads,
          .kv_heads = kv_heads == 0 ? heads : kv_heads,
          .n_q = n,
          .n_kv = n,
          .head_dim = 128,
          .dtype = Dtype::bf16,
          .mask = mask,
          .scale = 1.0};
}

constexpr FusedWalk kWalk{.tile_rows = 128, .tiles_at_once = 128};

TEST(CacheRetention, IsThreeQuartersOfTheCache) {
  EXPECT_EQ(cache_retention_bytes(device()), 48 * kMiB);
}

TEST(StreamedKv, ReadsOnceWhatStaysInTheCache) {
  // 8 MiB of K and V a head.
  EXPECT_EQ(streamed_kv_bytes(problem(16, 16384, Mask::none), device(), kWalk), kMiB * 16 * 8);
  EXPECT_EQ(streamed_kv_bytes(problem(16, 16384, Mask::causal), device(), kWalk), kMiB * 16 * 8);
}

TEST(StreamedKv, ReadsAgainForEachWaveThatTouchesAHead) {
  // 128 MiB a head and 2048 tiles: 16 waves, which begin where heads do.
  EXPECT_EQ(streamed_kv_bytes(problem(2, 262144, Mask::none), device(), kWalk),
            kMiB * 2 * 16 * 128);
  // Waves of 132: 15.5 a head, so that one touches both.
  const FusedWalk ragged{.tile_rows = 128, .tiles_at_once = 132};
  EXPECT_EQ(streamed_kv_bytes(problem(2, 262144, Mask::none), device(), ragged),
            kMiB * (16 + 17) * 128);
}

TEST(StreamedKv, CountsWhatTheWaveItselfPushesThroughTheCache) {
  // 16 MiB of K and V; a wave's Q and O take 8 MiB with 128 rows a tile, 64 MiB with 1024.
  Problem many_rows = problem(1, 32768, Mask::none);
  many_rows.n_q = 1048576;
  EXPECT_EQ(streamed_kv_bytes(many_rows, device(), {.tile_rows = 128, .tiles_at_once = 128}),
            16 * kMiB);
  EXPECT_EQ(streamed_kv_bytes(many_rows, device(), {.tile_rows = 1024, .tiles_at_once = 128}),
            kMiB * 8 * 16);
}

TEST(StreamedKv, CausalWavesEndAtTheLastKeyTheySee) {
  // 64 MiB a head, 1024 tiles in 8 waves: 8/8 + 7/8 + ... + 1/8 of the keys.
  EXPECT_EQ(streamed_kv_bytes(problem(1, 131072, Mask::causal), device(), kWalk),
            64 * kMiB / 8 * 36);
}

TEST(StreamedKv, HeadsThatShareKeysShareTheirPasses) {
  EXPECT_EQ(streamed_kv_bytes(problem(8, 16384, Mask::none, 2), device(), kWalk), kMiB * 2 * 8);
  // 64 MiB for each of two key heads, and 4 x 1024 tiles: 32 waves each.
  EXPECT_EQ(streamed_kv_bytes(problem(8, 131072, Mask::none, 2), device(), kWalk),
            kMiB * 2 * 32 * 64);
}

TEST(ExecutedPairs, CountWholeBlocks) {
  Problem small = problem(2, 100, Mask::none);
  EXPECT_EQ(executed_pairs(small, 64, 64), 2 * 128 * 128);
  small.mask = Mask::causal;  // rows 0..63 see one block, 64..99 two
  EXPECT_EQ(executed_pairs(small, 64, 64), 2 * (1 + 2) * 64 * 64);
}

}  // namespace
}  // namespace flashbench
