#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <vector>

#include "src/oracle.h"

namespace flashbench {

/// Oracle::rows on the device (oracle_rows.cu).
OracleRows cuda_oracle_rows(const Problem& problem, const Operands& operands,
                            std::span<const RowId> rows, cudaStream_t stream);

/// The largest finite |scaled score| over visible pairs (oracle_scores.cu).
double cuda_largest_visible_score(const Problem& problem, const Operands& operands,
                                  cudaStream_t stream);

/// Per (batch, head) the largest finite |x|_2 of a row: [batch * heads] (oracle_scores.cu).
std::vector<double> cuda_largest_norms(const Tensor& tensor, cudaStream_t stream);

}  // namespace flashbench
