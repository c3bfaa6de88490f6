#include "traffic.h"

#include <algorithm>

namespace flashbench {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::int64_t cache_retention_bytes(const DeviceInfo& device) {
  return device.l2_bytes / 2;
}

std::int64_t streamed_kv_bytes(const Problem& problem, const DeviceInfo& device,
                               const FusedWalk& walk) {
  const std::int64_t key_bytes = 2 * problem.head_dim * size_of(problem.dtype);  // of K and V
  const std::int64_t kv_heads = problem.batch * problem.kv_heads;
  const std::int64_t group = problem.heads / problem.kv_heads;
  const std::int64_t tiles = divide_up(problem.n_q, walk.tile_rows);
  const std::int64_t longest = problem.visible_keys(problem.n_q - 1);
  if (key_bytes * problem.n_kv <= cache_retention_bytes(device)) {
    return kv_heads * longest * key_bytes;
  }
  // A wave takes the same tiles of every query head of the group, as far as the device reaches.
  const std::int64_t wave_tiles = std::max<std::int64_t>(1, walk.tiles_at_once / group);
  const std::int64_t heads_in_wave = std::min(group, walk.tiles_at_once);
  std::int64_t keys = 0;
  for (std::int64_t end = tiles; end > 0; end -= wave_tiles) {
    keys += problem.visible_keys(std::min(end * walk.tile_rows, problem.n_q) - 1);
  }
  return kv_heads * divide_up(group, heads_in_wave) * keys * key_bytes;
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
