#include "oracle.h"

namespace flashbench {

OracleRows make_oracle_rows(const Problem& problem, std::span<const RowId> rows) {
  const std::size_t elements = rows.size() * static_cast<std::size_t>(problem.head_dim);
  OracleRows truth;
  truth.rows.assign(rows.begin(), rows.end());
  truth.lse.resize(rows.size());
  truth.row_sum.resize(rows.size());
  for (std::vector<double>* sums : {&truth.out, &truth.weight_sum, &truth.weight_square,
                                    &truth.value_sum, &truth.value_distance}) {
    sums->resize(elements);
  }
  const std::size_t storages = problem.dtype == Dtype::f32 ? 1 : 2;
  for (std::size_t storage = 0; storage < storages; ++storage) {
    truth.scores[storage].bound.resize(elements);
    truth.scores[storage].variance.resize(elements);
    truth.scores[storage].lse_bound.resize(rows.size());
  }
  return truth;
}

}  // namespace flashbench
