#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "backend.h"
#include "cell.h"

namespace flashbench {

/// What to run: every problem x every implementation, problem by problem.
struct SweepRequest {
  std::vector<Problem> problems;
  /// Catalogue names, or "naive" / "fused" (the first of that kind that supports the problem on
  /// this device), or "all". Checked by check_implementation_names() (admission.h).
  std::vector<std::string> implementations;
  Settings settings;
};

/// Told of a run as it goes. All calls come from the thread that called sweep().
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  virtual void begin(const Run& /*run*/, std::size_t /*total_cells*/) {}
  /// `index` counts cells from 0. The cells of one problem are prepared and timed together.
  virtual void started(const Problem& /*problem*/, std::string_view /*implementation*/,
                       std::size_t /*index*/, std::size_t /*total_cells*/) {}
  /// run.cells.back() has just been finished.
  virtual void finished(const Run& /*run*/, std::size_t /*total_cells*/) {}
  /// run.warnings.back() is new.
  virtual void warned(const Run& /*run*/) {}
  virtual void end(const Run& /*run*/) {}
};

/// Runs the cells. One cell's failure becomes its status; only a lost device makes the rest
/// `not_run`. Stops after the cell in hand once `stop` is set (run.interrupted). `run` comes in
/// with command, started_utc and device filled, and grows its cells.
void sweep(Backend& backend, const SweepRequest& request, Run& run, SweepObserver& observer,
           const std::atomic<bool>& stop);

/// 0: every cell ok, unsupported or predicted out_of_memory; 1: a wrong result; 3: a failed cell;
/// 130: interrupted.
int exit_code(const Run& run);

}  // namespace flashbench
