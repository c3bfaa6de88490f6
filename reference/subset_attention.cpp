#include "reference/subset_attention.h"

#include <algorithm>
#include <limits>

#include "reference/cpu_rows.h"
#include "reference/openblas.h"

namespace flashbench {

std::int64_t query_blocks(const Problem& problem) {
  return problem.batch * problem.heads * ((problem.n_q + kQueryBlock - 1) / kQueryBlock);
}

QueryBlock query_block(const Problem& problem, std::int64_t index) {
  const std::int64_t blocks = (problem.n_q + kQueryBlock - 1) / kQueryBlock;
  const std::int64_t head = index / blocks;
  const std::int64_t row = index % blocks * kQueryBlock;
  return {head / problem.heads, head % problem.heads, row,
          std::min(kQueryBlock, problem.n_q - row)};
}

std::int64_t subset_floats(const Problem& problem, std::int64_t keys) {
  return 2 * (kQueryBlock + keys) * problem.head_dim + kQueryBlock * keys;
}

void attend_subset(const Problem& problem, const Operands& operands, const QueryBlock& block,
                   std::span<const std::int64_t> keys, const VisibleKeys& visible, float* scratch) {
  const std::int64_t dim = problem.head_dim;
  const auto count = static_cast<std::int64_t>(keys.size());
  const std::int64_t kv_head = block.head / (problem.heads / problem.kv_heads);
  float* q = scratch;
  float* o = q + kQueryBlock * dim;
  float* k = o + kQueryBlock * dim;
  float* v = k + count * dim;
  float* s = v + count * dim;
  load_matrix(operands.q.data, operands.q.dtype,
              operands.q.at(block.batch, block.row, block.head, 0), operands.q.stride[1],
              block.rows, dim, q);
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t key = keys[static_cast<std::size_t>(j)];
    load_matrix(operands.k.data, operands.k.dtype, operands.k.at(block.batch, key, kv_head, 0), 0,
                1, dim, k + j * dim);
    load_matrix(operands.v.data, operands.v.dtype, operands.v.at(block.batch, key, kv_head, 0), 0,
                1, dim, v + j * dim);
  }
  const auto rows = static_cast<blasint>(block.rows);
  const auto n = static_cast<blasint>(count);
  const auto d = static_cast<blasint>(dim);
  if (count > 0) {
    openblas().sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, n, d,
                     static_cast<float>(problem.scale), q, d, k, d, 0.0F, s, n);
  }
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const auto [first, last] = visible(block.row + r);
    float* line = s + r * count;
    std::fill(line, line + first, 0.0F);
    const float lse = softmax_row(line, Dtype::f32, first, last - first, count - first, nullptr);
    if (operands.lse != nullptr) {
      operands.lse[(block.batch * problem.heads + block.head) * problem.n_q + block.row + r] = lse;
    }
  }
  if (count > 0) {
    openblas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, d, n, 1.0F, s, n, v, d, 0.0F,
                     o, d);
  } else {
    std::fill(o, o + block.rows * dim, 0.0F);
  }
  store_matrix(o, block.rows, dim, operands.o.data, operands.o.dtype,
               operands.o.at(block.batch, block.row, block.head, 0), operands.o.stride[1]);
}

void mean_of_rows(const Tensor& tensor, std::int64_t batch, std::int64_t row, std::int64_t rows,
                  std::int64_t head, float* mean) {
  constexpr std::int64_t kChunk = 256;
  float line[kChunk];
  const std::int64_t dim = tensor.shape[3];
  for (std::int64_t c = 0; c < dim; c += kChunk) {
    const std::int64_t columns = std::min(kChunk, dim - c);
    std::fill_n(mean + c, columns, 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) {
      load_matrix(tensor.data, tensor.dtype, tensor.at(batch, row + r, head, c), 0, 1, columns,
                  line);
      // Divided one by one: the sum of the largest values would overflow.
      for (std::int64_t i = 0; i < columns; ++i) mean[c + i] += line[i] / static_cast<float>(rows);
    }
  }
}

}  // namespace flashbench
