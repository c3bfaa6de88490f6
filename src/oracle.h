#pragma once

#include <array>
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

/// What errors of the scores do to the output after normalisation. Vectors of [rows, head_dim]. p:
/// normalised weights, v: values, o: output, delta_j: bound of the error of score j
/// (error_model.h).
struct ScorePerturbation {
  std::vector<double> bound;      ///< sum p_j (exp(delta_j) - 1) |v_j - o| / sum p_j exp(-delta_j)
  std::vector<double> variance;   ///< sum p_j^2 E[delta_j^2] (v_j - o)^2
  std::vector<double> lse_bound;  ///< [rows] log sum p_j exp(delta_j): how far the lse may move
};

/// The float64 truth of some rows, and the sums from which exactness.h builds the error bound and
/// the expected noise of any Arithmetic. Vectors of [rows, head_dim] unless said otherwise. A row
/// without visible keys has zeros, but for its lse.
struct OracleRows {
  std::vector<RowId> rows;
  std::vector<double> lse;  ///< [rows] log sum exp(s_j); -infinity for a row without visible keys
  std::vector<double> row_sum;        ///< [rows] l = sum exp(s_j - m), m the row's maximum
  std::vector<double> out;            ///< o
  std::vector<double> weight_sum;     ///< sum p_j |v_j|
  std::vector<double> weight_square;  ///< sum p_j^2 v_j^2
  std::vector<double> value_sum;      ///< sum |v_j|
  std::vector<double>
      value_distance;  ///< max |v_j - o|: no weights at all can move the output further
  /// By ScoreStorage. The second is empty for f32 problems, where both are the same.
  std::array<ScorePerturbation, 2> scores;
};

/// All sums of `rows` zero.
OracleRows make_oracle_rows(const Problem& problem, std::span<const RowId> rows);

/// What one look over a whole output finds. A group is ceil(64 / head_dim) consecutive rows of one
/// head: rows of few elements are pooled so that a difference rests on at least 64 elements.
struct OutputScan {
  std::int64_t poisoned = 0;    ///< elements that still hold the poison pattern (bytes 0xff)
  std::int64_t non_finite = 0;  ///< NaN or infinite elements, poison included
  double max_abs_difference =
      0;  ///< from the other output, where one is given; NaN counts as infinite
  double max_row_difference = 0;        ///< max over groups of |a - b|_2 / |b|_2 (0 / 0 is 0)
  RowId worst_row;                      ///< first row of that group
  std::int64_t differing_elements = 0;  ///< bitwise
};

/// Rows in a group of OutputScan.
constexpr std::int64_t rows_per_group(std::int64_t head_dim) {
  return (64 + head_dim - 1) / head_dim;
}

/// The seeded inputs of a problem and the truth about its outputs, on the device where the tensors
/// live. Every call returns after the device has finished.
class Oracle {
 public:
  Oracle() = default;
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;
  virtual ~Oracle() = default;

  /// Fills Q, K and V. The same spec gives the same bits on every device,
  /// but for the bits of a NaN.
  virtual void generate(const Problem& problem, const InputSpec& spec,
                        const Operands& operands) = 0;
  /// Float64 on the inputs as stored.
  virtual OracleRows rows(const Problem& problem, const Operands& operands,
                          std::span<const RowId> rows) = 0;
  /// An upper bound of |scaled score| over visible pairs where that is under `limit`
  /// (Cauchy-Schwarz), else the largest itself. Scores that are not finite are left out.
  virtual double largest_score(const Problem& problem, const Operands& operands, double limit) = 0;
  /// `other`: an output of the same shape, or null.
  virtual OutputScan scan(const Tensor& out, const Tensor* other) = 0;
};

}  // namespace flashbench
