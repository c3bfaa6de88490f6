#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "implementation.h"
#include "oracle.h"
#include "problem.h"

namespace flashbench {

enum class Verdict : std::uint8_t { exact, not_exact, not_checked };
std::string_view to_string(Verdict verdict);

/// The element with the largest |error| / bound.
struct WorstElement {
  RowId row;
  std::int64_t column = 0;
  double got = 0;  ///< may be NaN or infinite
  double want = 0;
  double bound = 0;
};

/// The judgement of one output.
struct Exactness {
  Verdict verdict = Verdict::not_checked;
  std::optional<std::string> reason;  ///< one clause, where the verdict is not `exact`
  double bound_ratio = 0;  ///< max |error| / bound; infinite where an element is not finite
  std::optional<double> row_noise;  ///< generic generated data only
  std::optional<double> row_noise_limit;
  double max_abs = 0;
  double rel_frobenius = 0;
  double max_ulp = 0;  ///< of the output dtype
  WorstElement worst;
  std::optional<double> lse_bound_ratio;  ///< the same of the log-sum-exp, where it was asked for
  std::int64_t rows_checked = 0;
  std::int64_t rows_total = 0;
  std::optional<bool> deterministic;  ///< two launches agree bit for bit
  std::optional<std::string>
      compared_with;  ///< the implementation that the whole output was compared with
};

/// Judges the rows of `truth`. `got`: [rows, head_dim] elements of the output, in the order of
/// truth.rows. `generic`: the inputs are drawn from a distribution on which rounding errors are
/// independent, so that row_noise is part of the verdict.
///
/// A row without visible keys must be 0. Where the truth is NaN or infinite, because a visible key
/// or value is, the output must not be finite either, and which of the two it is does not matter;
/// everywhere else it must be finite. A row all of whose visible scores are -infinity has no
/// softmax and is not judged.
Exactness judge(const Problem& problem, const Arithmetic& arithmetic, const OracleRows& truth,
                std::span<const double> got, bool generic);

/// Judges the log-sum-exp of the same rows as well: `got` as in truth.rows. Its error has a bound
/// of its own, and a row without visible keys must have -infinity. Adds to what judge() found.
void judge_lse(const Problem& problem, const Arithmetic& arithmetic, const OracleRows& truth,
               std::span<const double> got, Exactness& exactness);

/// Whether the rows of `out` that no oracle looked at could be those of a right output, given
/// `scan`, its comparison with the output `reference` of a second implementation. Both have passed
/// judge() on the same sampled rows: `got` and `reference_got`, [rows, head_dim]. Two right outputs
/// differ by their rounding errors, whose size the sampled rows show; the limit follows from them
/// and from how far the largest of all groups of rows may stray from the sampled ones. Nothing, or
/// a clause that the other implementation's name completes: "row 5 of batch 0, head 1 is off by 0.2
/// (limit 0.01) from".
std::optional<std::string> compare_outputs(const Problem& problem, const OutputScan& scan,
                                           std::span<const double> got,
                                           std::span<const double> reference_got);

/// Operations that the oracle spends on one (row, visible key, column).
inline constexpr double kOracleOperations = 16.0;

/// All rows where the oracle's operations stay under `budget`, else at least 256 spread over
/// batches, heads, both ends, tile edges +-1 and random places; sorted, without duplicates.
std::vector<RowId> select_rows(const Problem& problem, double budget, std::uint64_t seed);

}  // namespace flashbench
