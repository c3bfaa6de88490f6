#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cell.h"

namespace flashbench {

/// What was measured of one cell, for the figures derived from it.
struct Measurements {
  std::vector<double> step_seconds;  ///< one a step, or empty where that was not measured
  std::optional<std::vector<StepModel>> models;  ///< one a step
  std::optional<PlanCounters> counters;
};

/// Fills cell.steps, cell.counters and cell.bound. `step_names`: those of the plan. `references`
/// may be null. Bytes are the counters' where there are some, else the model's; a step with neither
/// has no bound. A figure that the device cannot have reached is marked, and bounds nothing.
void derive_figures(Cell& cell, std::span<const std::string> step_names,
                    const Measurements& measured, const References* references,
                    const DeviceInfo& device);

}  // namespace flashbench
