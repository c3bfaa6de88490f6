#include "problem_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

#include "annotate.h"
#include "error.h"
#include "figures.h"
#include "sampling.h"
#include "verifier.h"
#include "workbench.h"

namespace flashbench {

namespace {

// Memory that a launch may take beyond the arena before it counts as taken behind the harness: the
// driver hands out 2 MiB pages, and other small clients of the card come and go.
constexpr std::int64_t kHiddenAllocationBytes = std::int64_t{8} << 20;

// A cell shorter than this is too much of a launch to show the noise of the timing.
constexpr double kLeastNoiseSeconds = 200e-6;

/// A cell in the making.
struct Entry {
  Candidate* candidate = nullptr;
  std::size_t output = 0;  ///< which output of the workbench
  Plan plan;

  Cell& cell() const { return candidate->cell; }
  bool alive() const { return cell().status == Status::not_run; }
  void end(Status status, std::string reason) const {
    cell().status = status;
    cell().reason = std::move(reason);
  }
};

/// Runs `body` for an entry; what goes wrong becomes the entry's status.
template <typename Body>
void guarded(const Entry& entry, Body&& body) {
  try {
    body();
  } catch (const DeviceLost& error) {
    entry.end(Status::failed, error.what());
    throw;
  } catch (const OutOfMemory& error) {
    entry.end(Status::out_of_memory, error.what());
  } catch (const std::exception& error) {
    entry.end(Status::failed, error.what());
  }
}

class ProblemRun {
 public:
  ProblemRun(Backend& backend, const Settings& settings, const Instruments& instruments,
             std::vector<Candidate>& candidates, const std::atomic<bool>& stop)
      : backend_(backend),
        settings_(settings),
        instruments_(instruments),
        problem_(candidates.front().cell.problem),
        stop_(stop),
        arena_(*backend.device) {
    for (Candidate& candidate : candidates) {
      if (candidate.cell.status == Status::not_run) entries_.push_back({&candidate, 0, {}});
    }
  }

  void run() {
    if (entries_.empty() || !set_up()) return;
    for (Entry& entry : entries_) {
      if (stop_) return;
      const Range cell(entry.cell().implementation, problem_);
      guarded(entry, [&] { verify(entry); });
    }
    compare_whole_outputs();
    time_interleaved();
    measure_noise();
    for (Entry& entry : entries_) {
      if (!entry.alive() || !entry.cell().time) continue;
      guarded(entry, [&] { finish(entry); });
    }
  }

 private:
  /// Allocates and fills the workbench. An allocation that fails although it was predicted to fit
  /// costs the hungriest cell its place, until the rest fits.
  bool set_up() {
    while (!entries_.empty()) {
      std::vector<const Implementation*> implementations;
      for (Entry& entry : entries_) {
        entry.output = implementations.size();
        implementations.push_back(entry.candidate->implementation);
      }
      const MemoryNeed need = memory_need(problem_, implementations, backend_.device->info());
      try {
        bench_.emplace(arena_, *backend_.device, problem_, entries_.size(), need.workspace);
        const InputSpec inputs{.distribution = settings_.distribution, .seed = settings_.seed};
        backend_.oracle->generate(problem_, inputs, bench_->operands(0));
        verifier_.emplace(backend_, *bench_, inputs, sweep_budget(backend_.device->info().kind));
        return true;
      } catch (const OutOfMemory& error) {
        verifier_.reset();
        bench_.reset();
        const auto hungriest = std::ranges::max_element(
            entries_, {}, [](const Entry& entry) { return entry.cell().memory.workspace_bytes; });
        hungriest->end(Status::out_of_memory, error.what());
        entries_.erase(hungriest);
      }
    }
    return false;
  }

  void make_plan(Entry& entry) {
    entry.plan = {};
    entry.plan = entry.candidate->implementation->plan(problem_, bench_->operands(entry.output),
                                                       bench_->workspace(), *backend_.device);
    entry.cell().choices = entry.plan.choices;
  }

  /// Poisons the output, runs the plan once and waits for it.
  void launch(const Entry& entry) {
    bench_->poison(entry.output);
    enqueue_annotated(entry.plan, backend_.device->stream());
    backend_.device->synchronize();
  }

  void verify(Entry& entry) {
    const Range phase("verify");
    if (const auto reason = verifier_->score_overflow(*entry.candidate->implementation)) {
      entry.end(Status::unsupported, *reason);
      return;
    }
    // The first plan and launch load modules and make handles. What a second one takes is the
    // implementation's own, and must have come from the arena.
    make_plan(entry);
    launch(entry);
    bench_->keep(entry.output);
    entry.plan = {};
    const std::int64_t free_before = backend_.device->free_bytes();
    make_plan(entry);
    bench_->poison(entry.output);
    entry.plan.enqueue(backend_.device->stream());
    const std::int64_t free_during = backend_.device->free_bytes();
    backend_.device->synchronize();
    const std::int64_t hidden = free_before - std::min(free_during, backend_.device->free_bytes());
    if (backend_.device->info().kind == DeviceKind::cuda) {
      entry.cell().memory.driver_peak_bytes =
          entry.cell().memory.peak_bytes + std::max<std::int64_t>(hidden, 0);
      if (hidden > kHiddenAllocationBytes) {
        entry.end(Status::failed,
                  fmt::format("took {} bytes of device memory behind the harness", hidden));
        return;
      }
    }
    Exactness exactness =
        verifier_->check(entry.output, entry.candidate->implementation->arithmetic(problem_));
    exactness.deterministic = verifier_->repeats(entry.output);
    record(entry, exactness);
  }

  static void record(const Entry& entry, const Exactness& exactness) {
    entry.cell().exactness = exactness;
    const bool approximate = entry.candidate->implementation->kind() == Kind::approximate;
    if (exactness.verdict == Verdict::not_exact && !approximate) {
      entry.end(Status::wrong, exactness.reason.value_or("not exact"));
    }
  }

  /// Where rows were sampled, the rest is held against another implementation's output.
  void compare_whole_outputs() {
    if (verifier_->all_rows()) return;
    for (Entry& entry : entries_) {
      if (!entry.alive() || entry.cell().kind == Kind::approximate) continue;
      const auto other = std::ranges::find_if(entries_, [&](const Entry& candidate) {
        return &candidate != &entry && candidate.alive() &&
               candidate.cell().kind != Kind::approximate;
      });
      if (other == entries_.end()) continue;
      guarded(entry, [&] {
        Exactness exactness = *entry.cell().exactness;
        exactness.compared_with = other->cell().implementation;
        if (const auto reason = verifier_->compare(entry.output, other->output)) {
          exactness.verdict = Verdict::not_exact;
          exactness.reason = fmt::format("{} {}", *reason, other->cell().implementation);
        }
        record(entry, exactness);
      });
    }
  }

  void time_interleaved() {
    const Range phase("time");
    std::vector<Entry*> timed;
    std::vector<Enqueue> plans;
    for (Entry& entry : entries_) {
      if (!entry.alive()) continue;
      bench_->poison(entry.output);  // what is verified afterwards was written by a timed launch
      timed.push_back(&entry);
      plans.emplace_back([&entry](Stream stream) { entry.plan.enqueue(stream); });
    }
    if (timed.empty() || stop_) return;
    std::vector<TimeStats> times;
    try {
      times = sample_interleaved(*backend_.device, plans, sampling_settings(settings_), stop_);
    } catch (const Error& error) {
      for (const Entry* entry : timed) entry->end(Status::failed, error.what());
      throw;
    }
    for (std::size_t i = 0; i < timed.size(); ++i) {
      if (!times[i].samples_s.empty()) timed[i]->cell().time = std::move(times[i]);
    }
    const auto naive = std::ranges::find_if(timed, [](const Entry* entry) {
      return entry->cell().kind == Kind::naive && entry->cell().time;
    });
    if (naive == timed.end()) return;
    for (const Entry* entry : timed) {
      if (entry->cell().time) {
        entry->cell().speedup_over_naive = time_ratio(*(*naive)->cell().time, *entry->cell().time);
      }
    }
  }

  /// Times the first plan that is long enough against itself, once a run.
  void measure_noise() {
    if (instruments_.noise_floor == nullptr || *instruments_.noise_floor || stop_) return;
    const auto entry = std::ranges::find_if(entries_, [](const Entry& candidate) {
      return candidate.alive() && candidate.cell().time &&
             candidate.cell().time->median_s >= kLeastNoiseSeconds;
    });
    if (entry == entries_.end()) return;
    guarded(*entry, [&] {
      const Enqueue plan = [&](Stream stream) { entry->plan.enqueue(stream); };
      *instruments_.noise_floor =
          measure_noise_floor(*backend_.device, plan, sampling_settings(settings_), stop_);
    });
  }

  /// Verifies what the timed launches wrote, and fills the figures step by step.
  void finish(Entry& entry) {
    const Implementation& implementation = *entry.candidate->implementation;
    const std::optional<bool> deterministic = entry.cell().exactness->deterministic;
    const auto compared_with = entry.cell().exactness->compared_with;
    Exactness after = verifier_->check(entry.output, implementation.arithmetic(problem_));
    after.deterministic = deterministic;
    after.compared_with = compared_with;
    record(entry, after);
    if (!entry.alive()) {
      entry.cell().time.reset();
      entry.cell().speedup_over_naive.reset();
      return;
    }
    derive(entry);
    entry.cell().status = Status::ok;
  }

  void derive(Entry& entry) {
    Cell& cell = entry.cell();
    Measurements measured;
    measured.models = entry.candidate->implementation->model(problem_, backend_.device->info());
    if (!measured.models) cell.model_reason = "not our code: its memory traffic is not modelled";
    measured.step_seconds = step_seconds(entry);
    if (instruments_.counters == nullptr) {
      cell.measured_reason = "counters are off";
    } else {
      const Range phase("count");
      measured.counters = instruments_.counters->measure(entry.plan, problem_.dtype);
      if (!measured.counters) cell.measured_reason = instruments_.counters->reason();
    }
    std::vector<std::string> names;
    for (const Step& step : entry.plan.steps) names.push_back(step.name);
    derive_figures(cell, names, measured, instruments_.references, backend_.device->info());
  }

  /// Time of each step within the plan: differences between the medians of its growing prefixes, so
  /// that each step meets the cache as its predecessor left it.
  std::vector<double> step_seconds(const Entry& entry) {
    const auto& steps = entry.plan.steps;
    const double whole = entry.cell().time->median_s;
    if (steps.size() == 1) return {whole};
    std::vector<Enqueue> prefixes;
    for (std::size_t count = 1; count < steps.size(); ++count) {
      prefixes.emplace_back([&steps, count](Stream stream) {
        for (std::size_t i = 0; i < count; ++i) steps[i].enqueue(stream);
      });
    }
    SamplingSettings settings = sampling_settings(settings_);
    settings.stopping.time_limit_s *= 0.5;
    const auto times = sample_interleaved(*backend_.device, prefixes, settings, stop_);
    std::vector<double> seconds;
    double before = 0;
    for (const TimeStats& time : times) {
      if (time.samples_s.empty()) return {};
      seconds.push_back(std::max(0.0, time.median_s - before));
      before = time.median_s;
    }
    seconds.push_back(std::max(0.0, whole - before));
    return seconds;
  }

  Backend& backend_;
  const Settings& settings_;
  const Instruments& instruments_;
  Problem problem_;
  const std::atomic<bool>& stop_;
  Arena arena_;
  std::optional<Workbench> bench_;
  std::optional<Verifier> verifier_;
  std::vector<Entry> entries_;
};

}  // namespace

void run_problem(Backend& backend, const Settings& settings, const Instruments& instruments,
                 std::vector<Candidate>& candidates, const std::atomic<bool>& stop) {
  if (candidates.empty()) return;
  ProblemRun(backend, settings, instruments, candidates, stop).run();
}

}  // namespace flashbench
