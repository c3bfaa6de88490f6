#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inputs.h"
#include "problem.h"
#include "tensor.h"

namespace flashbench {

/// One row of the output: O[batch, row, head, :].
struct RowId {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  bool operator==(const RowId&) const = default;
};

/// The float64 truth of some rows, and the sums from which exactness.h builds the error bound and
/// the expected noise of any Arithmetic. Vectors of [rows, head_dim] unless said otherwise. p:
/// normalised weights, s: scaled scores, a_j = scale * sum_c |q_c k_jc|, v: values, o: output.
struct OracleRows {
  std::vector<RowId> rows;
  std::vector<double> lse;            ///< [rows]; -infinity for a row without visible keys
  std::vector<double> out;            ///< o
  std::vector<double> dot_spread;     ///< sum p_j a_j |v_j - o|
  std::vector<double> score_spread;   ///< sum p_j |s_j| |v_j - o|
  std::vector<double> exp_spread;     ///< sum p_j (1 + m - s_j) |v_j - o|, m the row's maximum
  std::vector<double> weight_sum;     ///< sum p_j |v_j|
  std::vector<double> value_sum;      ///< sum |v_j|
  std::vector<double> weight_square;  ///< sum p_j^2 v_j^2
  std::vector<double> score_square;   ///< sum p_j^2 s_j^2 (v_j - o)^2
  std::vector<double> dot_square;     ///< sum p_j^2 a_j^2 (v_j - o)^2
  std::vector<double> row_sum;        ///< [rows] l = sum exp(s_j - m)
};

/// What one look over a whole output finds.
struct OutputScan {
  std::int64_t poisoned = 0;      ///< elements that still hold the poison pattern (bytes 0xff)
  std::int64_t non_finite = 0;    ///< NaN or infinite elements, poison included
  double max_abs_difference = 0;  ///< from the other output, where one is given
  double max_row_difference = 0;  ///< max over rows of |a - b|_2 / |b|_2 (0 / 0 is 0)
  RowId worst_row;                ///< where that is
  std::int64_t differing_elements = 0;  ///< bitwise
};

/// The seeded inputs of a problem and the truth about its outputs, on the device where the tensors
/// live. Every call returns after the device has finished.
class Oracle {
 public:
  Oracle() = default;
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;
  virtual ~Oracle() = default;

  /// Fills Q, K and V. The same spec gives the same values on every device, up to the last place of
  /// libm.
  virtual void generate(const Problem& problem, const InputSpec& spec,
                        const Operands& operands) = 0;
  /// Float64 on the inputs as stored.
  virtual OracleRows rows(const Problem& problem, const Operands& operands,
                          std::span<const RowId> rows) = 0;
  /// An upper bound of |scaled score| over visible pairs where that is under `limit`
  /// (Cauchy-Schwarz), else the largest itself.
  virtual double largest_score(const Problem& problem, const Operands& operands, double limit) = 0;
  /// `other`: an output of the same shape, or null.
  virtual OutputScan scan(const Tensor& out, const Tensor* other) = 0;
};

}  // namespace flashbench
