#include "traffic.h"

#include <algorithm>

namespace flashbench {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Keys of one key/value head that the waves of a causal walk read, each up to the last key it
/// sees. A wave takes the same tiles of every query head that shares the keys, as far as the device
/// reaches.
std::int64_t causal_wave_keys(const Problem& problem, const FusedWalk& walk) {
  const std::int64_t group = problem.heads / problem.kv_heads;
  const std::int64_t heads_in_wave = std::min(group, walk.tiles_at_once);
  const std::int64_t wave_rows =
      std::max<std::int64_t>(1, walk.tiles_at_once / group) * walk.tile_rows;
  std::int64_t keys = 0;
  for (std::int64_t end = problem.n_q; end > 0; end -= wave_rows) {
    keys += problem.visible_keys(end - 1);
  }
  return divide_up(group, heads_in_wave) * keys;
}

}  // namespace

std::int64_t cache_retention_bytes(const DeviceInfo& device) {
  return device.l2_bytes / 4 * 3;
}

std::int64_t streamed_kv_bytes(const Problem& problem, const DeviceInfo& device,
                               const FusedWalk& walk) {
  const std::int64_t size = size_of(problem.dtype);
  const std::int64_t key_bytes = 2 * problem.head_dim * size;  // of K and V
  const std::int64_t kv_heads = problem.batch * problem.kv_heads;
  const std::int64_t longest = problem.visible_keys(problem.n_q - 1);
  const std::int64_t once = kv_heads * longest * key_bytes;
  const std::int64_t retention = cache_retention_bytes(device);
  if (problem.mask == Mask::causal) {
    if (longest * key_bytes <= retention) return once;
    return kv_heads * causal_wave_keys(problem, walk) * key_bytes;
  }

  // Heads follow one another, so that a wave streams K and V of those it touches, and its own Q, O.
  const std::int64_t wave = walk.tiles_at_once;
  const std::int64_t tiles =  // of a key/value head
      divide_up(problem.n_q, walk.tile_rows) * (problem.heads / problem.kv_heads);
  const auto touches = [&](std::int64_t head) {  // waves that touch the head
    return (head * tiles + tiles - 1) / wave - head * tiles / wave + 1;
  };
  const std::int64_t heads_in_wave = std::min(kv_heads, wave / tiles + 1);
  const std::int64_t wave_rows = std::min(wave, kv_heads * tiles) * walk.tile_rows;
  const std::int64_t streamed =
      heads_in_wave * longest * key_bytes + 2 * wave_rows * problem.head_dim * size;
  if (streamed <= retention) return once;
  std::int64_t passes = 0;
  for (std::int64_t head = 0; head < kv_heads; ++head) passes += touches(head);
  return passes * longest * key_bytes;
}

double executed_pairs(const Problem& problem, std::int64_t tile_rows, std::int64_t block_keys) {
  double blocks = 0;
  for (std::int64_t row = 0; row < problem.n_q; row += tile_rows) {
    const std::int64_t last = std::min(row + tile_rows, problem.n_q) - 1;
    blocks += static_cast<double>(divide_up(problem.visible_keys(last), block_keys));
  }
  return static_cast<double>(problem.batch * problem.heads) * blocks *
         static_cast<double>(tile_rows * block_keys);
}

}  // namespace flashbench
