#pragma once

#include <optional>
#include <string>

#include "cell.h"

namespace flashbench {

/// What the tensor cores did by the counters, against what attention asks for. A kernel works in
/// tiles: of a causal mask's triangle it also computes what of the tiles on the diagonal is masked,
/// and one that skips no tile computes the whole square.
struct ExecutedOperations {
  double operations = 0;
  double over_algorithmic = 0;  ///< of the pairs that the mask leaves: at least 1
  double over_unmasked = 0;     ///< of all pairs: 1 where nothing is skipped
};

/// Nothing where no tensor operations were counted.
std::optional<ExecutedOperations> executed_operations(const Cell& cell);

/// A line for each section with a causal mask: how much of the square each implementation executes
/// at the largest problem that was counted. Empty where there is none.
std::string causal_shares(const Run& run);

}  // namespace flashbench
