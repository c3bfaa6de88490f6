#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "backend.h"
#include "exactness.h"
#include "inputs.h"
#include "workbench.h"

namespace flashbench {

/// Operations that the oracle may spend on one problem of a sweep, and on one case of a
/// verification: about a second and some tenths of one on two cores, a fraction of that on a GPU.
double sweep_budget(DeviceKind kind);
double verify_budget(DeviceKind kind);

/// The truth about one problem on a workbench, worked out once, and the judgement of any output
/// against it.
class Verifier {
 public:
  /// The inputs have been generated from `inputs`. Runs the oracle: over all rows where that is
  /// under `budget` operations, else over some (select_rows).
  Verifier(Backend& backend, Workbench& bench, const InputSpec& inputs, double budget);

  bool all_rows() const;
  const OracleRows& truth() const { return truth_; }

  /// Why an implementation that stores scores in the problem's dtype cannot store those of this
  /// data, with the largest, or nothing.
  std::optional<std::string> score_overflow(const Implementation& implementation);

  /// Judges an output: every element written and finite where the truth is, the rows of the truth
  /// and their log-sum-exp (where the workbench has one and it was written) within their bounds.
  Exactness check(std::size_t output, const Arithmetic& arithmetic);
  /// Whether an output has the bits of the spare one, which holds an earlier launch of the same
  /// plan.
  bool repeats(std::size_t output);
  /// Holds the rows that the truth leaves out against another output. Returns what is wrong, a
  /// clause that the other's name completes, or nothing.
  std::optional<std::string> compare(std::size_t output, std::size_t other);

 private:
  Backend& backend_;
  Workbench& bench_;
  InputSpec inputs_;
  OracleRows truth_;
  std::optional<double> largest_score_;
};

}  // namespace flashbench
