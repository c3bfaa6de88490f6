#include "sweep.h"

#include <algorithm>

#include "admission.h"
#include "error.h"
#include "problem_run.h"

namespace flashbench {

void sweep(Backend& backend, const SweepRequest& request, Run& run, SweepObserver& observer,
           const std::atomic<bool>& stop) {
  const DeviceInfo& device = backend.device->info();
  std::size_t total = 0;
  for (const Problem& problem : request.problems) {
    total +=
        resolve_implementations(request.implementations, backend.catalogue, problem, device).size();
  }
  observer.begin(run, total);

  std::string lost;  // why the device answers nothing more
  for (const Problem& problem : request.problems) {
    std::vector<Candidate> candidates = admit(problem, request.implementations, backend);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      observer.started(problem, candidates[i].cell.implementation, run.cells.size() + i, total);
    }
    if (!lost.empty()) {
      for (Candidate& candidate : candidates) {
        if (candidate.cell.status == Status::not_run) candidate.cell.reason = lost;
      }
    } else {
      try {
        run_problem(backend, request.settings, candidates, stop);
      } catch (const DeviceLost& error) {
        lost = std::string("the device was lost in an earlier cell: ") + error.what();
      }
    }
    for (Candidate& candidate : candidates) {
      if (candidate.cell.status == Status::not_run && !candidate.cell.reason) {
        candidate.cell.reason = stop ? "interrupted" : "its problem could not be run";
      }
      run.cells.push_back(std::move(candidate.cell));
      observer.finished(run, total);
    }
    if (stop) {
      run.interrupted = true;
      break;
    }
  }
  observer.end(run);
}

int exit_code(const Run& run) {
  const auto any = [&](Status status) {
    return std::ranges::any_of(run.cells, [&](const Cell& cell) { return cell.status == status; });
  };
  if (run.interrupted) return 130;
  if (any(Status::failed) || any(Status::not_run)) return 3;
  if (any(Status::wrong)) return 1;
  return 0;
}

}  // namespace flashbench
