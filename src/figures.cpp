#include "figures.h"

#include <algorithm>

namespace flashbench {

namespace {

/// A step for the rule of bound.h, or nothing where its time or its traffic is unknown.
std::optional<StepWork> work_of(const StepResult& step) {
  if (!step.median_s || (!step.model && !step.measured)) return std::nullopt;
  StepWork work;
  work.seconds = *step.median_s;
  if (step.model) {
    work.read_bytes = static_cast<double>(step.model->read_bytes);
    work.write_bytes = static_cast<double>(step.model->write_bytes);
    work.unit = step.model->unit;
    work.matrix_flops = step.model->matrix_flops;
    work.exps = step.model->exps;
  }
  if (step.measured) {
    work.read_bytes = step.measured->read_bytes;
    work.write_bytes = step.measured->write_bytes;
    work.bytes_measured = true;
  }
  return work;
}

const CounterFigures& counted_step(const PlanCounters& counters, std::size_t step) {
  return counters.steps.empty() ? counters.whole : counters.steps.at(step);
}

}  // namespace

void derive_figures(Cell& cell, std::span<const std::string> step_names,
                    const Measurements& measured, const References* references,
                    const DeviceInfo& device) {
  cell.counters = measured.counters;
  cell.steps.clear();
  std::vector<StepBound> bounds;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < step_names.size(); ++i) {
    StepResult step;
    step.name = step_names[i];
    if (!measured.step_seconds.empty()) step.median_s = measured.step_seconds.at(i);
    if (measured.models) step.model = measured.models->at(i);
    if (measured.counters) step.measured = counted_step(*measured.counters, i);
    if (const auto work = work_of(step)) {
      step.impossible = impossibilities(*work, device, cell.time->sm_clock_hz);
      if (references != nullptr && step.impossible.empty()) {
        step.bound = bound_of_step(*work, *references, cell.time->empty_launch_s);
      }
    }
    if (step.bound) {
      bounds.push_back(*step.bound);
      seconds.push_back(*step.median_s);
    }
    cell.steps.push_back(std::move(step));
  }
  cell.bound.reset();
  if (!bounds.empty() && bounds.size() == cell.steps.size()) {
    cell.bound = bound_of_plan(bounds, seconds, cell.time->median_s);
  }
}

}  // namespace flashbench
