#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "admission.h"
#include "backend.h"
#include "cell.h"

namespace flashbench {

/// Runs the candidates of one problem side by side: verify each, time them interleaved, verify what
/// the timed launches wrote, derive. Fills the cells. A failure becomes its cell's status;
/// DeviceLost is thrown on, with every cell filled as far as it came.
void run_problem(Backend& backend, const Settings& settings, std::vector<Candidate>& candidates,
                 const std::atomic<bool>& stop);

}  // namespace flashbench
