#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "reference/oracle_row.h"

// The oracle's loops over the columns of a row, in the widest vectors that the processor has.

namespace flashbench {

struct DotProducts {
  double sum = 0;        ///< sum_c q_c k_c
  double magnitude = 0;  ///< sum_c |q_c k_c|
};

DotProducts dot_products(const double* q, const double* k, std::size_t size);

/// to_c += factor x_c.
void add_scaled(double factor, const double* x, double* to, std::size_t size);

/// ColumnSums of all columns of a row, each [head_dim]; bound before division by the row's floor.
struct SpreadSums {
  std::vector<double> weight_sum, weight_square, value_sum, value_distance;
  std::array<std::vector<double>, 2> bound, variance;
  std::size_t storages = 0;

  void resize(std::size_t head_dim, std::size_t storage_count);
};

/// Adds key j with weight `p` and value `v` (v and out: [head_dim]).
void add_spreads(double p, const std::array<KeyPerturbation, 2>& factors, const double* v,
                 const double* out, SpreadSums& sums);

}  // namespace flashbench
