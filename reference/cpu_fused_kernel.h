#pragma once

#include <cstdint>

#include "problem.h"
#include "tensor.h"

namespace flashbench {

/// How cpu-fused cuts a problem. The query heads that share a key/value head are stacked, head
/// index fastest, so that row r of the stack is query r / group of head kv_head * group + r %
/// group: what a row sees grows with r, and a decode step with grouped heads still fills a vector.
struct FusedShape {
  std::int64_t rows = 0;        ///< of a stack: n_q * heads / kv_heads
  std::int64_t lanes = 0;       ///< of a vector, one row each
  std::int64_t strip_rows = 0;  ///< rows whose accumulators fill the registers: up to 3 vectors
  std::int64_t block_rows = 0;  ///< rows that share a packed key tile: several strips
  std::int64_t tile_keys = 0;
  std::int64_t key_step = 0;  ///< keys (and channels) of one register block; tiles are padded to it
  std::int64_t padded_dim = 0;  ///< head_dim up to a multiple of key_step

  std::int64_t blocks() const { return (rows + block_rows - 1) / block_rows; }
  /// Floats of scratch that one fused_block needs.
  std::int64_t scratch_floats() const;
};

/// For the widest vectors of this processor. `threads`: blocks are made small enough to keep them
/// all busy.
FusedShape fused_shape(const Problem& problem, int threads);

/// The output (and log-sum-exp) of rows [block * block_rows, ...) of one stack. `scratch`:
/// scratch_floats() floats, 64-byte aligned, contents of no matter. Calls with different scratch
/// may run at once.
void fused_block(const Problem& problem, const Operands& operands, const FusedShape& shape,
                 std::int64_t batch, std::int64_t kv_head, std::int64_t block, float* scratch);

}  // namespace flashbench
