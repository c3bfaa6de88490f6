#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "admission.h"
#include "backend.h"
#include "cell.h"
#include "counters.h"
#include "references.h"

namespace flashbench {

/// What a run measures with, beside the clock.
struct Instruments {
  Counters* counters = nullptr;            ///< null: not asked for
  const References* references = nullptr;  ///< null: none in this run
  /// Where the noise floor goes, once one cell is long enough for it. Null: not asked for.
  std::optional<NoiseFloor>* noise_floor = nullptr;
};

/// Runs the candidates of one problem side by side: verify each, time them interleaved, verify what
/// the timed launches wrote, count, derive. Fills the cells. A failure becomes its cell's status;
/// DeviceLost is thrown on, with every cell filled as far as it came.
void run_problem(Backend& backend, const Settings& settings, const Instruments& instruments,
                 std::vector<Candidate>& candidates, const std::atomic<bool>& stop);

}  // namespace flashbench
