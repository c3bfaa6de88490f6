#include "sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "admission.h"
#include "error.h"
#include "problem_run.h"

namespace flashbench {

namespace {

// Sampling time of one reference; there are about nine.
constexpr double kReferenceBudgetSeconds = 0.1;
// The references are measured again when this much has passed, so that drift is seen.
constexpr double kReferencePeriodSeconds = 30;

class Sweep {
 public:
  Sweep(Backend& backend, const SweepRequest& request, Run& run, SweepObserver& observer,
        const std::atomic<bool>& stop)
      : backend_(backend),
        request_(request),
        run_(run),
        observer_(observer),
        stop_(stop),
        counters_(*backend.device, backend.open_profiler) {}

  void go() {
    for (const Problem& problem : request_.problems) {
      total_ += resolve_implementations(request_.implementations, backend_.catalogue, problem,
                                        backend_.device->info())
                    .size();
    }
    observer_.begin(run_, total_);
    open_counters();
    for (const Problem& problem : request_.problems) {
      measure_references();
      run_cells(problem);
      if (stop_) {
        run_.interrupted = true;
        break;
      }
    }
    if (run_.noise_floor && !run_.noise_floor->stable) {
      warn(fmt::format("unstable: an implementation timed against itself differs by {:.2f} %",
                       100 * (run_.noise_floor->ratio.ratio - 1)));
    }
    observer_.end(run_);
  }

 private:
  void warn(std::string text) {
    run_.warnings.push_back(std::move(text));
    observer_.warned(run_);
  }

  void open_counters() {
    const CounterMode mode = run_.settings.counters;
    if (mode == CounterMode::off || counters_.available()) return;
    if (mode == CounterMode::on) {
      throw Error(fmt::format("--counters on: {}", counters_.reason()));
    }
    // Nobody expects hardware counters of a CPU here.
    if (backend_.device->info().kind == DeviceKind::cuda) {
      warn(fmt::format("HBM bytes are modelled only: {}", counters_.reason()));
    }
  }

  void measure_references() {
    using Clock = std::chrono::steady_clock;
    if (!run_.settings.references || !backend_.open_references || !lost_.empty() || stop_) return;
    const auto now = Clock::now();
    if (run_.references &&
        std::chrono::duration<double>(now - referenced_).count() < kReferencePeriodSeconds) {
      return;
    }
    referenced_ = now;
    std::set<Dtype> dtypes;
    for (const Problem& problem : request_.problems) dtypes.insert(problem.dtype);
    try {
      const std::vector<Dtype> wanted(dtypes.begin(), dtypes.end());
      const auto bench = backend_.open_references(*backend_.device, wanted);
      const References measured = flashbench::measure_references(
          *backend_.device, *bench, run_.settings.load, kReferenceBudgetSeconds, stop_);
      if (run_.references) {
        run_.references->add(measured);
      } else {
        run_.references = measured;
      }
    } catch (const OutOfMemory& error) {
      warn(fmt::format("no references in this run: {}", error.what()));
      run_.settings.references = false;
    } catch (const DeviceLost& error) {
      lost_ = fmt::format("the device was lost while references were measured: {}", error.what());
    }
  }

  void run_cells(const Problem& problem) {
    std::vector<Candidate> candidates = admit(problem, request_.implementations, backend_);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      observer_.started(problem, candidates[i].cell.implementation, run_.cells.size() + i, total_);
    }
    if (lost_.empty()) {
      Instruments instruments;
      if (run_.settings.counters != CounterMode::off) instruments.counters = &counters_;
      if (run_.references) instruments.references = &*run_.references;
      if (run_.settings.noise_floor) instruments.noise_floor = &run_.noise_floor;
      try {
        run_problem(backend_, run_.settings, instruments, candidates, stop_);
      } catch (const DeviceLost& error) {
        lost_ = fmt::format("the device was lost in an earlier cell: {}", error.what());
      }
    }
    for (Candidate& candidate : candidates) {
      Cell& cell = candidate.cell;
      if (cell.status == Status::not_run && !cell.reason) {
        cell.reason = !lost_.empty() ? lost_
                      : stop_        ? "interrupted"
                                     : "its problem could not be run";
      }
      run_.cells.push_back(std::move(cell));
      observer_.finished(run_, total_);
      warn_of(run_.cells.back());
    }
  }

  void warn_of(const Cell& cell) {
    for (const StepResult& step : cell.steps) {
      for (const std::string& reason : step.impossible) {
        warn(fmt::format("{}, {}, {}: invalid: {}", cell.problem.to_string(), cell.implementation,
                         step.name, reason));
      }
    }
  }

  Backend& backend_;
  const SweepRequest& request_;
  Run& run_;
  SweepObserver& observer_;
  const std::atomic<bool>& stop_;
  Counters counters_;
  std::chrono::steady_clock::time_point referenced_;
  std::size_t total_ = 0;
  std::string lost_;  ///< why the device answers nothing more
};

}  // namespace

void sweep(Backend& backend, const SweepRequest& request, Run& run, SweepObserver& observer,
           const std::atomic<bool>& stop) {
  run.settings = request.settings;
  Sweep(backend, request, run, observer, stop).go();
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
