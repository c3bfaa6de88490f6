#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "problem.h"
#include "tensor.h"

namespace flashbench {

/// Rows [row, row + rows) of one query head.
struct QueryBlock {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

/// Queries of one block, for the approximations that choose keys block by block.
inline constexpr std::int64_t kQueryBlock = 64;
std::int64_t query_blocks(const Problem& problem);
/// Block `index` of query_blocks(): the rows of a head one after another, head by head.
QueryBlock query_block(const Problem& problem, std::int64_t index);

/// Positions [first, second) in the list of chosen keys that a query row sees.
using VisibleKeys = std::function<std::pair<std::int64_t, std::int64_t>(std::int64_t row)>;

/// Softmax attention of one block over chosen keys only: what is common to the approximations that
/// leave keys out or put others in their place. Writes O and, where asked for, the log-sum-exp over
/// what was chosen; a row that sees nothing gets 0. `keys`: rows of operands.k and operands.v,
/// which may be of another dtype and length than the problem's. f32 arithmetic, OpenBLAS' products.
/// `scratch`: subset_floats() floats.
void attend_subset(const Problem& problem, const Operands& operands, const QueryBlock& block,
                   std::span<const std::int64_t> keys, const VisibleKeys& visible, float* scratch);

/// Floats of scratch for blocks of kQueryBlock rows and `keys` keys.
std::int64_t subset_floats(const Problem& problem, std::int64_t keys);

/// mean [head_dim] of rows [row, row + rows) of one head of `tensor`, rows >= 1, as f32.
void mean_of_rows(const Tensor& tensor, std::int64_t batch, std::int64_t row, std::int64_t rows,
                  std::int64_t head, float* mean);

}  // namespace flashbench
