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

/// The truth about one problem on a workbench, worked out once, and the judgement of any output
/// against it.
class Verifier {
 public:
  /// The inputs have been generated from `inputs`. Runs the oracle: over all rows where that is
  /// cheap.
  Verifier(Backend& backend, Workbench& bench, const InputSpec& inputs);

  bool all_rows() const;

  /// Judges an output: every element written and finite, the rows of the truth within the bound,
  /// and the same bits as the spare output, which holds an earlier launch of the same plan.
  Exactness check(std::size_t output, const Arithmetic& arithmetic);
  /// The same without the comparison with the spare output.
  Exactness check_rows(std::size_t output, const Arithmetic& arithmetic);
  /// Holds the rows that the truth leaves out against another output. Returns what is wrong, a
  /// clause that the other's name completes, or nothing.
  std::optional<std::string> compare(std::size_t output, std::size_t other);

 private:
  Backend& backend_;
  Workbench& bench_;
  InputSpec inputs_;
  OracleRows truth_;
};

}  // namespace flashbench
