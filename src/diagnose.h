#pragma once

#include <span>
#include <string>
#include <vector>

#include "exactness.h"
#include "oracle.h"
#include "problem.h"
#include "tensor.h"

namespace flashbench {

/// What an error looks like.
struct Diagnosis {
  /// Where it is, a clause each: "rows 1024 to 2047 are wrong in all heads, the others right".
  std::vector<std::string> places;
  /// Faults that explain it, the best first, a clause each: "looks like the mask is aligned
  /// top-left". Each leaves at most a twentieth of the error unexplained.
  std::vector<std::string> causes;
};

/// Looks at an output that judge() called not exact. All tensors lie in host memory; `oracle` is
/// the CPU's. `truth` and `got`: the judged rows, as judge() had them; the more rows, the more it
/// can tell. Costs about as much as the oracle on sixty-four rows for each of a dozen hypotheses.
Diagnosis diagnose(Oracle& oracle, const Problem& problem, const Operands& operands,
                   const Arithmetic& arithmetic, const OracleRows& truth,
                   std::span<const double> got);

}  // namespace flashbench
