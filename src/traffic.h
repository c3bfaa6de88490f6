#pragma once

#include <cstdint>

#include "device.h"
#include "problem.h"

namespace flashbench {

/// The HBM model's shared parts; docs/hbm-model.md has the derivation and what was measured.

/// How a fused kernel walks a problem: tiles of query rows, each of which streams the keys it sees.
/// Without a mask the tiles of one key/value head all go before those of the next.
struct FusedWalk {
  std::int64_t tile_rows = 0;      ///< query rows of a tile
  std::int64_t tiles_at_once = 0;  ///< that read the same keys at the same time: one for each SM
};

/// Bytes of operands that survive in the last-level cache between one use and the next.
std::int64_t cache_retention_bytes(const DeviceInfo& device);

/// Bytes of K and V read from HBM: once where what a wave (the tiles that run at the same time)
/// streams through the cache survives there until the next, else once for each wave.
std::int64_t streamed_kv_bytes(const Problem& problem, const DeviceInfo& device,
                               const FusedWalk& walk);

/// (query, key) pairs that a kernel computes which skips only blocks with nothing to see: all heads
/// together, rows and keys past the ends included.
double executed_pairs(const Problem& problem, std::int64_t tile_rows, std::int64_t block_keys);

}  // namespace flashbench
